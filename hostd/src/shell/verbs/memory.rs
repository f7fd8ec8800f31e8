//! The memory of the programs with verbs contexts, for the dataplane thread.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hostd::ClientId;
use netio::process_memory::ProcessMemory;
use transport::{Atomic, Memory, MemoryFault, SpaceId};

/// Memory by the number of a context. Both threads have it.
#[derive(Clone, Debug, Default)]
pub(in crate::shell) struct Programs(Arc<Mutex<BTreeMap<u32, ProcessMemory>>>);

impl Programs {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u32, ProcessMemory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, client: ClientId, memory: ProcessMemory) {
        self.all().insert(client.0, memory);
    }

    pub(super) fn remove(&self, client: ClientId) {
        self.all().remove(&client.0);
    }

    fn with<T>(
        &self,
        SpaceId(space): SpaceId,
        access: impl FnOnce(&ProcessMemory) -> std::io::Result<T>,
    ) -> Result<T, MemoryFault> {
        let all = self.all();
        let memory = all.get(&space).ok_or(MemoryFault)?;
        access(memory).map_err(|_| MemoryFault)
    }
}

impl Memory for Programs {
    fn read(&mut self, space: SpaceId, address: u64, out: &mut [u8]) -> Result<(), MemoryFault> {
        self.with(space, |memory| memory.read(address, out))
    }

    fn write(&mut self, space: SpaceId, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        self.with(space, |memory| memory.write(address, bytes))
    }

    /// Atomic among the host's own accesses, as an adapter's are (`IBV_ATOMIC_HCA`).
    fn atomic(
        &mut self,
        space: SpaceId,
        address: u64,
        operation: Atomic,
    ) -> Result<u64, MemoryFault> {
        self.with(space, |memory| {
            let mut bytes = [0; 8];
            memory.read(address, &mut bytes)?;
            let original = u64::from_ne_bytes(bytes);
            let next = operation.applied_to(original);
            memory.write(address, &next.to_ne_bytes())?;
            Ok(original)
        })
    }
}
