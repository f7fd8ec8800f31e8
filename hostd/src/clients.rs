//! The programs that send MADs through this host: to which one a response or an unsolicited MAD
//! goes.
//!
//! A client's transaction ids are its own. On the way out the upper half of a request's id becomes
//! a key of this host, which stands for the client and the half it replaces; an answer gets its
//! half back by that key. Responses and TrapRepress go out unchanged.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bincode::{Decode, Encode};
use wire::mad::{Mad, Method, MgmtClass};

/// Upper halves of transaction ids that are remembered for one client; the oldest is forgotten
/// first.
const KEYS_MAX: usize = 64;

/// A client of the local MAD sockets, numbered by the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct ClientId(pub u32);

/// The clients of one host.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    /// Which client receives unsolicited MADs of a class.
    classes: BTreeMap<u8, ClientId>,
    /// The clients that have declared themselves subnet manager.
    managers: BTreeSet<ClientId>,
    /// What a key stands for.
    keys: BTreeMap<u32, (ClientId, u32)>,
    /// The keys of a client, oldest first.
    by_client: BTreeMap<ClientId, VecDeque<u32>>,
    last_key: u32,
}

fn halves(tid: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = tid.to_be_bytes();
    (
        u32::from_be_bytes([a, b, c, d]),
        u32::from_be_bytes([e, f, g, h]),
    )
}

fn join(upper: u32, lower: u32) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}

impl Clients {
    /// Prepares `mad`, which `client` sends: a request gets a key.
    pub(crate) fn send(&mut self, client: ClientId, mad: &mut Mad) {
        if mad.method().is_response() || mad.method() == Method::TRAP_REPRESS {
            return;
        }
        let (upper, lower) = halves(mad.tid());
        let key = self.key(client, upper);
        mad.set_tid(join(key, lower));
    }

    fn key(&mut self, client: ClientId, upper: u32) -> u32 {
        let own = self.by_client.entry(client).or_default();
        let known = own
            .iter()
            .find(|key| self.keys.get(key) == Some(&(client, upper)));
        if let Some(&key) = known {
            return key;
        }
        if own.len() >= KEYS_MAX
            && let Some(oldest) = own.pop_front()
        {
            self.keys.remove(&oldest);
        }
        loop {
            self.last_key = self.last_key.wrapping_add(1);
            if self.last_key != 0 && !self.keys.contains_key(&self.last_key) {
                break;
            }
        }
        own.push_back(self.last_key);
        self.keys.insert(self.last_key, (client, upper));
        self.last_key
    }

    /// Which client a received MAD is for; a response gets its transaction id back.
    pub(crate) fn receive(&mut self, mad: &mut Mad) -> Option<ClientId> {
        if !mad.method().is_response() {
            return self.classes.get(&mad.class().0).copied();
        }
        let (key, lower) = halves(mad.tid());
        let &(client, upper) = self.keys.get(&key)?;
        mad.set_tid(join(upper, lower));
        Some(client)
    }

    /// Whether a client receives unsolicited MADs of a class.
    pub(crate) fn serves(&self, class: MgmtClass) -> bool {
        self.classes.contains_key(&class.0)
    }

    /// Registers a client for a class. Returns whether it has the class now.
    pub(crate) fn register(&mut self, client: ClientId, class: u8) -> bool {
        *self.classes.entry(class).or_insert(client) == client
    }

    /// Unregisters a client from a class, if it has it.
    pub(crate) fn unregister(&mut self, client: ClientId, class: u8) {
        if self.classes.get(&class) == Some(&client) {
            self.classes.remove(&class);
        }
    }

    pub(crate) fn set_is_sm(&mut self, client: ClientId, is_sm: bool) {
        if is_sm {
            self.managers.insert(client);
        } else {
            self.managers.remove(&client);
        }
    }

    /// Whether a client has declared itself subnet manager.
    pub(crate) fn is_sm(&self) -> bool {
        !self.managers.is_empty()
    }

    /// Whether a client answers SMInfo.
    pub(crate) fn serves_sm_info(&self) -> bool {
        [MgmtClass::SUBN_LID, MgmtClass::SUBN_DIR]
            .iter()
            .any(|class| self.classes.contains_key(&class.0))
    }

    /// Removes a client that has disconnected.
    pub(crate) fn remove(&mut self, client: ClientId) {
        self.classes.retain(|_, owner| *owner != client);
        self.managers.remove(&client);
        for key in self.by_client.remove(&client).unwrap_or_default() {
            self.keys.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::mad::AttributeId;

    use super::*;

    const ONE: ClientId = ClientId(1);
    const TWO: ClientId = ClientId(2);

    fn request(tid: u64) -> Mad {
        Mad::lid_smp(Method::GET, AttributeId::NODE_INFO, 0, tid)
    }

    #[test]
    fn two_clients_with_the_same_transaction_id_get_their_own_answers() {
        let mut clients = Clients::default();
        let mut sent = [ONE, TWO].map(|client| {
            let mut mad = request(0xaaaa_bbbb_0000_0007);
            clients.send(client, &mut mad);
            mad
        });
        assert_ne!(sent[0].tid(), sent[1].tid());
        assert_eq!(sent[0].tid() & 0xffff_ffff, 7, "the lower half stays");
        for (client, mad) in [ONE, TWO].into_iter().zip(&mut sent) {
            mad.set_method(Method::GET_RESP);
            assert_eq!(clients.receive(mad), Some(client));
            assert_eq!(mad.tid(), 0xaaaa_bbbb_0000_0007);
        }
    }

    #[test]
    fn answers_and_represses_keep_their_transaction_id() {
        let mut clients = Clients::default();
        for method in [Method::GET_RESP, Method::TRAP_REPRESS] {
            let mut mad = request(0x1234_5678_9abc_def0);
            mad.set_method(method);
            clients.send(ONE, &mut mad);
            assert_eq!(mad.tid(), 0x1234_5678_9abc_def0);
        }
    }

    #[test]
    fn a_class_has_one_client_and_is_free_again_when_it_goes() {
        let mut clients = Clients::default();
        assert!(clients.register(ONE, 0x81));
        assert!(clients.register(ONE, 0x81));
        assert!(!clients.register(TWO, 0x81));
        clients.set_is_sm(ONE, true);
        assert!(clients.is_sm() && clients.serves_sm_info());
        clients.unregister(TWO, 0x81);
        assert!(
            clients.serves_sm_info(),
            "only its owner gives a class back"
        );
        clients.remove(ONE);
        assert!(!clients.is_sm() && !clients.serves_sm_info());
        assert!(clients.register(TWO, 0x81));
    }

    #[test]
    fn memory_for_transaction_ids_is_bounded() {
        let mut clients = Clients::default();
        for upper in 0..1000u64 {
            clients.send(ONE, &mut request(upper << 32));
        }
        assert_eq!(clients.keys.len(), KEYS_MAX);
        let mut stale = request(1 << 32);
        stale.set_method(Method::GET_RESP);
        assert_eq!(clients.receive(&mut stale), None);
        clients.remove(ONE);
        assert!(clients.keys.is_empty());
    }
}
