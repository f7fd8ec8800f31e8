//! How a datagram of QP1 goes besides LID and queue pair: which of the port's LIDs, keys and GIDs it names, and
//! the global route header (IBA 8.3, 13.5.4).

use link::{DropReason, Time};
use mad::local::{MadGlobalRoute, MadWay};
use tracing::debug;
use transport::{DirectSend, Partition};
use wire::mad::Mad;
use wire::{Gid, GlobalRoute, Guid, Lid, Qpn, Sl, UdPacket, p_key};

use super::Endpoint;
use super::datagram::gmp_send;

/// The GUID by which subnet administration is reached wherever it is (IBA 15.4.1.2).
const WELL_KNOWN_SA_GUID: Guid = Guid(0x0200_0000_0000_0002);

impl Endpoint {
    /// The port's LID with these path bits, as far as its LMC leaves them free; 0 if it has none.
    pub(super) fn local_lid(&self, path_bits: u8) -> Lid {
        let settings = &self.adapter.settings;
        if settings.lid == Lid::ZERO {
            return Lid::ZERO;
        }
        let free = u16::from(path_bits) & (settings.lmc.lids() - 1);
        Lid::new(settings.lid.get() | free)
    }

    /// Which of the port's LIDs this is.
    pub(super) fn path_bits(&self, own: Lid) -> u8 {
        match self.adapter.owns(own) {
            // LMC is at most 7.
            true => own.get().to_be_bytes()[1] & self.path_bits_mask(),
            false => 0,
        }
    }

    fn path_bits_mask(&self) -> u8 {
        (self.adapter.settings.lmc.lids() - 1).to_be_bytes()[1]
    }

    /// The port's GUIDs: its own one, and aliases that were given to it.
    fn guids(&self) -> &[Guid] {
        self.sma.guids(self.number())
    }

    /// The entry of the GUID table that a GID of this port names.
    fn gid_index(&self, gid: Gid) -> Option<u8> {
        let prefix = self.sma.gid_prefix(self.number());
        if gid.prefix() != prefix && gid.prefix() != Gid::DEFAULT_PREFIX {
            return None;
        }
        let is_named = |guid: &Guid| *guid == gid.guid() && *guid != Guid::default();
        let at = self.guids().iter().position(is_named);
        let at = at.or((gid.guid() == WELL_KNOWN_SA_GUID).then_some(0));
        at.and_then(|at| u8::try_from(at).ok())
    }

    /// Whether a GID names this port: with the subnet's prefix or the default one (IBA 4.1.1).
    pub(super) fn names_port(&self, gid: Gid) -> bool {
        self.gid_index(gid).is_some()
    }

    /// By which way a datagram of QP1 has come.
    pub(super) fn way_of(&self, datagram: &UdPacket<'_>) -> MadWay {
        let entry = p_key::admitting_entry(self.sma.pkeys(self.number()), datagram.pkey);
        let entry = entry.and_then(|at| u16::try_from(at).ok());
        MadWay {
            path_bits: self.path_bits(datagram.dlid),
            pkey_index: entry.unwrap_or_default(),
            global: datagram.global.map(|global| MadGlobalRoute {
                gid_index: self.gid_index(global.dgid).unwrap_or_default(),
                remote: global.sgid,
                flow_label: global.flow_label,
                hop_limit: MadGlobalRoute::HOP_LIMIT_MAX,
                traffic_class: global.tclass,
            }),
        }
    }

    /// Sends a datagram of QP1 by a way that a program has chosen. One that names an empty entry of a table is
    /// dropped, as by an adapter.
    pub(super) fn send_gmp_by(
        &mut self,
        now: Time,
        mad: &Mad,
        way: &MadWay,
        (dlid, qpn, sl): (Lid, Qpn, Sl),
    ) {
        if !dlid.is_unicast() && !dlid.is_multicast() {
            return self.drop_one(DropReason::BadDlid);
        }
        let global = match way.global {
            None => None,
            Some(global) => match self.global_route(&global) {
                Some(global) => Some(global),
                None => {
                    debug!(entry = global.gid_index, "there is no GUID in this entry");
                    return self.drop_one(DropReason::BadMad);
                }
            },
        };
        let send = DirectSend {
            src_path_bits: way.path_bits,
            global,
            dest_qp: qpn,
            ..gmp_send(dlid, sl, Partition::At(way.pkey_index), mad)
        };
        self.send(now, self.own.gsi, &send);
    }

    fn global_route(&self, global: &MadGlobalRoute) -> Option<GlobalRoute> {
        let guid = self.guids().get(usize::from(global.gid_index)).copied();
        let guid = guid.filter(|guid| *guid != Guid::default())?;
        Some(GlobalRoute {
            tclass: global.traffic_class,
            flow_label: global.flow_label,
            hop_limit: global.hop_limit,
            sgid: Gid::new(self.sma.gid_prefix(self.number()), guid),
            dgid: global.remote,
        })
    }
}
