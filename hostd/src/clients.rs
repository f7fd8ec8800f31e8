//! The programs that send MADs through this host: to which one a response or an unsolicited MAD
//! goes.
//!
//! A client's transaction ids are its own. On the way out the upper half of a request's id becomes
//! a key of this host, which stands for the client and the half it replaces; an answer, or the
//! TrapRepress of a trap, gets its half back by that key. Responses and TrapRepress go out unchanged.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bincode::{Decode, Encode};
use mad::local::Registration;
use wire::mad::{Mad, Method, MgmtClass};

/// Upper halves of transaction ids that are remembered for one client; the oldest is forgotten
/// first. A program that registers agents has one for each.
const KEYS_MAX: usize = 4096;
/// Registrations of methods of one client at most.
const REGISTRATIONS_MAX: usize = 4096;

/// A client of the local MAD sockets, numbered by the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct ClientId(pub u32);

/// The clients of one host.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    /// Which client receives unsolicited MADs of a class, whatever the version and method.
    classes: BTreeMap<u8, ClientId>,
    /// By class: which clients receive unsolicited MADs of some methods. None of a class in `classes`.
    methods: BTreeMap<u8, Vec<(Registration, ClientId)>>,
    /// The clients that have declared themselves subnet manager.
    managers: BTreeSet<ClientId>,
    /// By key: the client, and the upper half of its transaction ids.
    keys: BTreeMap<u32, (ClientId, u32)>,
    /// The key that stands for it.
    by_upper: BTreeMap<(ClientId, u32), u32>,
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
        if let Some(&key) = self.by_upper.get(&(client, upper)) {
            return key;
        }
        let own = self.by_client.entry(client).or_default();
        if own.len() >= KEYS_MAX
            && let Some(oldest) = own.pop_front()
            && let Some(forgotten) = self.keys.remove(&oldest)
        {
            self.by_upper.remove(&forgotten);
        }
        loop {
            self.last_key = self.last_key.wrapping_add(1);
            if self.last_key != 0 && !self.keys.contains_key(&self.last_key) {
                break;
            }
        }
        own.push_back(self.last_key);
        self.keys.insert(self.last_key, (client, upper));
        self.by_upper.insert((client, upper), self.last_key);
        self.last_key
    }

    /// Whether a client has sent something with that transaction id.
    pub(crate) fn has_sent(&self, tid: u64) -> bool {
        self.keys.contains_key(&halves(tid).0)
    }

    /// Which client a received MAD is for; a response or TrapRepress gets its transaction id back.
    pub(crate) fn receive(&mut self, mad: &mut Mad) -> Option<ClientId> {
        if !mad.method().is_response() && mad.method() != Method::TRAP_REPRESS {
            return self.receiver(mad);
        }
        let (key, lower) = halves(mad.tid());
        let &(client, upper) = self.keys.get(&key)?;
        mad.set_tid(join(upper, lower));
        Some(client)
    }

    /// Which client receives this unsolicited MAD.
    fn receiver(&self, mad: &Mad) -> Option<ClientId> {
        let class = mad.class().0;
        let whole = self.classes.get(&class).copied();
        whole.or_else(|| {
            let some = self.methods.get(&class)?.iter();
            some.map(|&(registration, client)| (registration.is_for(mad), client))
                .find_map(|(is_for, client)| is_for.then_some(client))
        })
    }

    /// Whether a client receives an unsolicited MAD.
    pub(crate) fn serves(&self, mad: &Mad) -> bool {
        self.receiver(mad).is_some()
    }

    /// Registers a client for a class. Returns whether it has the class now.
    pub(crate) fn register(&mut self, client: ClientId, class: u8) -> bool {
        if self.methods.contains_key(&class) {
            return false;
        }
        *self.classes.entry(class).or_insert(client) == client
    }

    /// Unregisters a client from a class, if it has it.
    pub(crate) fn unregister(&mut self, client: ClientId, class: u8) {
        if self.classes.get(&class) == Some(&client) {
            self.classes.remove(&class);
        }
    }

    /// Registers a client for methods of a class. Returns whether it has them now.
    pub(crate) fn register_methods(&mut self, client: ClientId, wanted: Registration) -> bool {
        let all = self.methods.values().flatten();
        let own = all.filter(|(_, owner)| *owner == client).count();
        if self.classes.contains_key(&wanted.class) || own >= REGISTRATIONS_MAX {
            return false;
        }
        let class = self.methods.entry(wanted.class).or_default();
        let is_free = !class.iter().any(|(taken, _)| taken.overlaps(&wanted));
        if is_free {
            class.push((wanted, client));
        }
        is_free
    }

    /// Unregisters a client from methods of a class, if it has them.
    pub(crate) fn unregister_methods(&mut self, client: ClientId, registration: Registration) {
        if let Some(class) = self.methods.get_mut(&registration.class) {
            class.retain(|entry| *entry != (registration, client));
        }
        self.methods.retain(|_, class| !class.is_empty());
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
        let answers = |registration: &Registration| registration.methods >> Method::GET.0 & 1 != 0;
        [MgmtClass::SUBN_LID, MgmtClass::SUBN_DIR]
            .iter()
            .any(|class| {
                let mut some = self.methods.get(&class.0).into_iter().flatten();
                self.classes.contains_key(&class.0)
                    || some.any(|(registration, _)| answers(registration))
            })
    }

    /// Removes a client that has disconnected.
    pub(crate) fn remove(&mut self, client: ClientId) {
        self.classes.retain(|_, owner| *owner != client);
        for class in self.methods.values_mut() {
            class.retain(|(_, owner)| *owner != client);
        }
        self.methods.retain(|_, class| !class.is_empty());
        self.managers.remove(&client);
        for key in self.by_client.remove(&client).unwrap_or_default() {
            if let Some(upper) = self.keys.remove(&key) {
                self.by_upper.remove(&upper);
            }
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
    fn the_repress_of_a_trap_comes_to_the_client_that_has_sent_it() {
        let mut clients = Clients::default();
        let mut mad = request(0xaaaa_bbbb_0000_0007);
        mad.set_method(Method::TRAP);
        assert!(!clients.has_sent(mad.tid()), "a trap of the agent's own");
        clients.send(TWO, &mut mad);
        assert!(clients.has_sent(mad.tid()));
        mad.set_method(Method::TRAP_REPRESS);
        assert_eq!(clients.receive(&mut mad), Some(TWO));
        assert_eq!(mad.tid(), 0xaaaa_bbbb_0000_0007);
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
        for upper in 0..2 * u64::try_from(KEYS_MAX).unwrap() {
            clients.send(ONE, &mut request(upper << 32));
        }
        assert_eq!(clients.keys.len(), KEYS_MAX);
        let mut stale = request(1 << 32);
        stale.set_method(Method::GET_RESP);
        assert_eq!(clients.receive(&mut stale), None);
        assert_eq!(clients.by_upper.len(), KEYS_MAX);
        clients.remove(ONE);
        assert!(clients.keys.is_empty() && clients.by_upper.is_empty());
    }

    fn methods(class: u8, version: u8, methods: &[Method]) -> Registration {
        Registration {
            class,
            version,
            oui: [0, 0x14, 5],
            methods: methods.iter().map(|method| 1 << method.0).sum(),
        }
    }

    #[test]
    fn two_clients_share_a_class_by_methods_and_none_takes_anothers() {
        let mut clients = Clients::default();
        let gets = methods(0x01, 1, &[Method::GET, Method::SET]);
        let traps = methods(0x01, 1, &[Method::TRAP]);
        assert!(clients.register_methods(TWO, traps));
        assert!(!clients.serves_sm_info(), "it hears traps only");
        assert!(clients.register_methods(ONE, gets));
        assert!(clients.serves_sm_info());
        assert!(!clients.register_methods(TWO, methods(0x01, 1, &[Method::SET])));
        assert!(!clients.register_methods(ONE, gets), "not twice either");
        assert!(!clients.register(TWO, 0x01), "the class is not free");
        let mut get = request(1);
        assert_eq!(clients.receive(&mut get), Some(ONE));
        get.set_method(Method::TRAP);
        assert_eq!(clients.receive(&mut get), Some(TWO));
        get.set_method(Method::REPORT);
        assert_eq!(clients.receive(&mut get), None);
        clients.unregister_methods(TWO, gets);
        assert!(clients.serves_sm_info(), "only its owner gives it back");
        clients.remove(ONE);
        clients.remove(TWO);
        assert!(clients.methods.is_empty() && clients.register(TWO, 0x01));
    }

    #[test]
    fn vendors_of_a_class_are_apart_by_their_oui_and_other_classes_have_none() {
        let mut clients = Clients::default();
        let mut ping = methods(0x32, 1, &[Method::GET]);
        assert!(clients.register_methods(ONE, ping));
        ping.oui = [0, 0, 1];
        assert!(clients.register_methods(TWO, ping));
        let mut mad = request(1);
        mad.as_bytes_mut()[1] = 0x32;
        mad.as_bytes_mut()[37..40].copy_from_slice(&[0, 0x14, 5]);
        assert_eq!(clients.receive(&mut mad), Some(ONE));
        mad.as_bytes_mut()[37..40].copy_from_slice(&[0, 0, 1]);
        assert_eq!(clients.receive(&mut mad), Some(TWO));
        let mut other = methods(0x04, 1, &[Method::GET]);
        assert!(clients.register_methods(ONE, other));
        other.oui = [9; 3];
        assert!(!clients.register_methods(TWO, other));
    }
}
