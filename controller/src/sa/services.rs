//! Services that ports offer (ServiceRecord, IBA 15.2.5.14): registered under a lease, found by their
//! components.
//!
//! A record is known by its ServiceID, ServiceGID and ServiceP_Key. Only the port that it names, or who shows
//! the SM_Key, may write it, and only with the ServiceKey that it has, if it has one; a deletion of the port
//! need not name the key (stock osmtest does not), but a wrong one is refused. It ends with its lease, when it is
//! deleted, or with its port. The key is shown to those only who show the SM_Key; who names it finds
//! the service.

use std::collections::BTreeMap;

use link::Time;
use wire::sa::{DATA_LEN, ServiceRecord, service_component as component};
use wire::{Gid, Guid, Mad, MadStatus, Method};

/// Services at most.
const SERVICES_MAX: usize = 4096;
/// Services of one port at most.
const PORT_SERVICES_MAX: usize = 256;
const NS_PER_S: u64 = 1_000_000_000;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    /// GUID of its port.
    pub(super) port: Option<Guid>,
    /// It has shown the SM_Key.
    pub(super) is_trusted: bool,
}

/// The registered services.
#[derive(Debug, Default)]
pub(super) struct Services {
    /// With the end of the lease, if it ends.
    records: BTreeMap<(u64, Gid, u16), (ServiceRecord, Option<Time>)>,
}

impl Services {
    /// Registers or deletes a service. Returns the record as it is, or was.
    ///
    /// # Errors
    /// The status to answer with.
    pub(super) fn write(
        &mut self,
        now: Time,
        request: &Mad,
        asker: Asker,
    ) -> Result<ServiceRecord, MadStatus> {
        let invalid = MadStatus::SA_REQUEST_INVALID;
        let mask = request.sa_header().map_err(|_| invalid)?.component_mask;
        let asked: ServiceRecord = request.sa_record().map_err(|_| invalid)?;
        // A deletion names the record by its identifier, whatever the mask says.
        let is_named = mask & component::ID != 0 && mask & component::GID != 0;
        if request.method() != Method::DELETE && !is_named {
            return Err(MadStatus::SA_INSUFFICIENT_COMPONENTS);
        }
        if !asker.is_trusted && asker.port != Some(asked.gid.guid()) {
            return Err(invalid);
        }
        self.expire(now);
        let id = (asked.id, asked.gid, asked.pkey);
        let known = self.records.get(&id);
        let names_key = request.method() != Method::DELETE || mask & component::KEY != 0;
        let is_locked = |(known, _): &(ServiceRecord, _)| {
            known.key != ServiceRecord::NO_KEY && known.key != asked.key
        };
        if names_key && known.is_some_and(is_locked) && !asker.is_trusted {
            return Err(invalid);
        }
        if request.method() == Method::DELETE {
            let (record, _) = self.records.remove(&id).ok_or(MadStatus::SA_NO_RECORDS)?;
            return Ok(shown(record, asker.is_trusted));
        }
        let of_port = self.records.keys().filter(|(_, gid, _)| *gid == asked.gid);
        let is_full = self.records.len() >= SERVICES_MAX || of_port.count() >= PORT_SERVICES_MAX;
        if known.is_none() && is_full {
            return Err(MadStatus::SA_NO_RESOURCES);
        }
        let lease_s = match mask & component::LEASE {
            0 => ServiceRecord::FOR_EVER,
            _ => asked.lease_s,
        };
        let ends =
            (lease_s != ServiceRecord::FOR_EVER).then(|| now + u64::from(lease_s) * NS_PER_S);
        let record = ServiceRecord { lease_s, ..asked };
        self.records.insert(id, (record, ends));
        Ok(shown(record, asker.is_trusted))
    }

    /// The services that match a query at `now`, with what is left of their leases.
    pub(super) fn find(
        &self,
        now: Time,
        mask: u64,
        data: &[u8; DATA_LEN],
        is_trusted: bool,
    ) -> Result<Vec<ServiceRecord>, MadStatus> {
        use wire::Format as _;
        let invalid = MadStatus::SA_REQUEST_INVALID;
        let (asked, _) = ServiceRecord::parse(data).map_err(|_| invalid)?;
        if mask & !component::ALL != 0 {
            return Err(invalid);
        }
        let asks = |bit: u64| mask & bit != 0;
        let matches = |record: &ServiceRecord| {
            (!asks(component::ID) || record.id == asked.id)
                && (!asks(component::GID) || record.gid == asked.gid)
                && (!asks(component::PKEY) || record.pkey == asked.pkey)
                && (!asks(component::NAME) || record.name == asked.name)
                && (!asks(component::KEY) || record.key == asked.key)
                && ServiceRecord::data_fields().all(|(bit, field)| {
                    !asks(bit) || record.data[field.clone()] == asked.data[field]
                })
        };
        let alive = self
            .records
            .values()
            .filter_map(|(record, ends)| match ends {
                None => Some(*record),
                Some(ends) if *ends <= now => None,
                Some(ends) => Some(ServiceRecord {
                    lease_s: wire::convert::saturate(ends.since_ns(now).div_ceil(NS_PER_S)),
                    ..*record
                }),
            });
        let found = alive.filter(matches);
        Ok(found.map(|record| shown(record, is_trusted)).collect())
    }

    /// Ends the services whose lease is over.
    pub(super) fn expire(&mut self, now: Time) {
        self.records
            .retain(|_, (_, ends)| ends.is_none_or(|ends| ends > now));
    }

    /// Ends the services of ports that are not there any more.
    pub(super) fn retain(&mut self, is_there: impl Fn(Guid) -> bool) {
        self.records.retain(|(_, gid, _), _| is_there(gid.guid()));
    }
}

/// A record as it is told: its key to those only who are trusted.
fn shown(record: ServiceRecord, is_trusted: bool) -> ServiceRecord {
    match is_trusted {
        true => record,
        false => ServiceRecord {
            key: ServiceRecord::NO_KEY,
            ..record
        },
    }
}

#[cfg(test)]
mod tests {
    use wire::AttributeId;
    use wire::sa::SaHeader;

    use super::*;

    const PORT: Guid = Guid(7);
    const OWNER: Asker = Asker {
        port: Some(PORT),
        is_trusted: false,
    };
    const NAMED: u64 = component::ID | component::GID;

    fn record(id: u64) -> ServiceRecord {
        let mut record = ServiceRecord {
            id,
            gid: Gid::new(Gid::DEFAULT_PREFIX, PORT),
            pkey: 0xffff,
            lease_s: 10,
            key: [3; 16],
            ..ServiceRecord::default()
        };
        record.name[..4].copy_from_slice(b"name");
        record.data[16] = 9;
        record
    }

    fn request(method: Method, mask: u64, record: &ServiceRecord) -> Mad {
        let mut mad = Mad::sa(method, AttributeId::SERVICE_RECORD, 0, 1);
        mad.set_sa_header(&SaHeader {
            component_mask: mask,
            ..SaHeader::default()
        });
        mad.set_sa_record(record);
        mad
    }

    fn find(services: &Services, now: Time, mask: u64, asked: &ServiceRecord) -> Vec<u64> {
        let mad = request(Method::GET, mask, asked);
        let found = services.find(now, mask, mad.sa_data(), false).unwrap();
        assert!(found.iter().all(|record| record.key == [0; 16]));
        found.iter().map(|record| record.id).collect()
    }

    #[test]
    fn a_service_is_found_by_its_components_until_its_lease_ends() {
        let mut services = Services::default();
        let leased = NAMED | component::LEASE;
        let set = request(Method::SET, leased, &record(1));
        let told = shown(record(1), false);
        assert_eq!(services.write(Time(0), &set, OWNER), Ok(told));
        let set = request(Method::SET, NAMED, &record(2));
        let for_ever = services.write(Time(0), &set, OWNER).unwrap();
        assert_eq!(for_ever.lease_s, ServiceRecord::FOR_EVER);
        let now = Time(4 * NS_PER_S);
        assert_eq!(find(&services, now, 0, &record(0)), [1, 2]);
        assert_eq!(find(&services, now, component::ID, &record(2)), [2]);
        assert_eq!(find(&services, now, component::NAME, &record(0)), [1, 2]);
        assert_eq!(find(&services, now, 1 << 23, &record(0)), [1, 2]);
        let other = ServiceRecord::default();
        assert!(find(&services, now, component::NAME, &other).is_empty());
        assert!(find(&services, now, component::KEY, &other).is_empty());
        assert!(find(&services, now, 1 << 23, &other).is_empty());
        assert_eq!(find(&services, now, component::KEY, &record(0)), [1, 2]);
        let left = services.find(now, 0, &[0; DATA_LEN], true).unwrap();
        assert_eq!((left[0].lease_s, left[0].key), (6, [3; 16]));
        assert_eq!(find(&services, Time(10 * NS_PER_S), 0, &record(0)), [2]);
        let delete = request(Method::DELETE, component::NAME, &record(2));
        assert!(services.write(now, &delete, OWNER).is_ok());
        assert_eq!(find(&services, now, 0, &record(0)), [1]);
        services.retain(|port| port != PORT);
        assert!(find(&services, now, 0, &record(0)).is_empty());
    }

    #[test]
    fn a_service_without_a_key_is_given_one_by_its_port() {
        let mut services = Services::default();
        let open = ServiceRecord {
            key: ServiceRecord::NO_KEY,
            ..record(1)
        };
        for (record, is_written) in [(open, true), (record(1), true), (open, false)] {
            let set = request(Method::SET, NAMED, &record);
            assert_eq!(services.write(Time(0), &set, OWNER).is_ok(), is_written);
        }
    }

    #[test]
    fn only_its_port_with_its_key_writes_a_service_and_not_too_many() {
        let mut services = Services::default();
        let stranger = Asker {
            port: Some(Guid(8)),
            is_trusted: false,
        };
        let set = request(Method::SET, NAMED, &record(1));
        let invalid = Err(MadStatus::SA_REQUEST_INVALID);
        assert_eq!(services.write(Time(0), &set, stranger), invalid);
        assert!(services.write(Time(0), &set, OWNER).is_ok());
        let other_key = ServiceRecord {
            key: [4; 16],
            ..record(1)
        };
        for method in [Method::SET, Method::DELETE] {
            let wrong = request(method, NAMED | component::KEY, &other_key);
            assert_eq!(services.write(Time(0), &wrong, OWNER), invalid);
        }
        let keyless = record(1);
        let keyless = ServiceRecord {
            key: ServiceRecord::NO_KEY,
            ..keyless
        };
        let set = request(Method::SET, NAMED, &keyless);
        assert_eq!(services.write(Time(0), &set, OWNER), invalid);
        let delete = request(Method::DELETE, component::NAME, &keyless);
        assert_eq!(services.write(Time(0), &delete, stranger), invalid);
        assert!(services.write(Time(0), &delete, OWNER).is_ok());
        let set = request(Method::SET, NAMED, &record(1));
        assert!(services.write(Time(0), &set, OWNER).is_ok());
        let unnamed = request(Method::SET, component::ID, &record(1));
        let missing = Err(MadStatus::SA_INSUFFICIENT_COMPONENTS);
        assert_eq!(services.write(Time(0), &unnamed, OWNER), missing);
        for id in 2..=256 {
            let set = request(Method::SET, NAMED, &record(id));
            assert!(services.write(Time(0), &set, OWNER).is_ok());
        }
        let set = request(Method::SET, NAMED, &record(257));
        let full = Err(MadStatus::SA_NO_RESOURCES);
        assert_eq!(services.write(Time(0), &set, OWNER), full);
        let trusted = Asker {
            port: None,
            is_trusted: true,
        };
        let delete = request(Method::DELETE, NAMED, &other_key);
        let deleted = request(Method::DELETE, NAMED, &record(1));
        assert!(services.write(Time(0), &delete, trusted).is_ok());
        let none = Err(MadStatus::SA_NO_RECORDS);
        assert_eq!(services.write(Time(0), &deleted, OWNER), none);
    }
}
