//! The files in which a kernel's driver describes an adapter, below `/sys/class/infiniband/<adapter>`: paths
//! and contents (Documentation/ABI/stable/sysfs-class-infiniband).

use core::fmt::Write as _;

use wire::{LinkSpeed, LinkWidth};

use super::{Adapter, AdapterPort};

/// The vendor whose adapters are named by their device numbers.
const MELLANOX: u32 = 0x0000_02c9;

/// A file: its path below the adapter's folder, and what is in it.
pub type File = (String, String);

impl Adapter {
    /// The adapter's model.
    #[must_use]
    pub fn model(&self) -> String {
        match self.vendor_id {
            MELLANOX => format!("MT{}", self.device_id),
            _ => "ibemu".to_owned(),
        }
    }

    /// The version of what stands for its firmware.
    pub const FIRMWARE: &'static str = env!("CARGO_PKG_VERSION");

    /// Its files. Counters that a Set of the performance class has put back begin anew here too; data is counted in words
    /// of 4 bytes. `refreshed_ms`: how often they are written anew, which is the `lifespan` of `hw_counters`.
    #[must_use]
    pub fn files(&self, refreshed_ms: u64) -> Vec<File> {
        let mut files = vec![
            line("node_type", "1: CA"),
            line("fw_ver", Self::FIRMWARE),
            line("hw_rev", &format!("{:x}", self.revision)),
            line("hca_type", &self.model()),
            line(
                "board_id",
                &format!("ibemu_{:06x}{:04x}", self.vendor_id, self.device_id),
            ),
            line("node_guid", &groups(self.node_guid)),
            line("sys_image_guid", &groups(self.system_image_guid)),
            line("node_desc", &self.description),
        ];
        for port in &self.ports {
            let folder = format!("ports/{}", port.number);
            let port = port.files(refreshed_ms).into_iter();
            files.extend(port.map(|(path, text)| (format!("{folder}/{path}"), text)));
        }
        files
    }
}

fn line(path: &str, text: &str) -> File {
    (path.to_owned(), format!("{text}\n"))
}

/// Four groups of four digits.
fn groups(number: u64) -> String {
    let mut text = String::new();
    for (position, byte) in number.to_be_bytes().into_iter().enumerate() {
        if position > 0 && position % 2 == 0 {
            text.push(':');
        }
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl AdapterPort {
    /// Data rate in tenths of Gbit/s as drivers count it, and the name of the speed.
    fn rate(&self) -> (u32, &'static str) {
        let [speed, extended, extended2] = self.speed;
        let (tenths, name) = match LinkSpeed::from_codes(speed, extended, extended2) {
            None => (0, ""),
            Some(LinkSpeed::Sdr) => (25, "SDR"),
            Some(LinkSpeed::Ddr) => (50, "DDR"),
            Some(LinkSpeed::Qdr) => (100, "QDR"),
            Some(LinkSpeed::Fdr10) => (100, "FDR10"),
            Some(LinkSpeed::Fdr) => (140, "FDR"),
            Some(LinkSpeed::Edr) => (250, "EDR"),
            Some(LinkSpeed::Hdr) => (500, "HDR"),
            Some(LinkSpeed::Ndr) => (1000, "NDR"),
            Some(LinkSpeed::Xdr) => (2000, "XDR"),
        };
        (tenths * u32::from(self.lanes()), name)
    }

    fn lanes(&self) -> u8 {
        LinkWidth::from_code(self.width).map_or(0, LinkWidth::lanes)
    }

    /// Data rate in whole Gbit/s as drivers count it.
    #[must_use]
    pub fn gbit_per_second(&self) -> u32 {
        self.rate().0 / 10
    }

    fn files(&self, refreshed_ms: u64) -> Vec<File> {
        let state = match self.state {
            1 => "1: DOWN",
            2 => "2: INIT",
            3 => "3: ARMED",
            4 => "4: ACTIVE",
            _ => "0: NOP",
        };
        let physical = match self.physical_state {
            1 => "1: Sleep",
            2 => "2: Polling",
            3 => "3: Disabled",
            4 => "4: PortConfigurationTraining",
            5 => "5: LinkUp",
            6 => "6: LinkErrorRecovery",
            _ => "0: <unknown>",
        };
        let (tenths, speed) = self.rate();
        let fraction = if tenths % 10 == 0 { "" } else { ".5" };
        let rate = format!(
            "{}{fraction} Gb/sec ({}X {speed})",
            tenths / 10,
            self.lanes()
        );
        let mut files = vec![
            line("state", state),
            line("phys_state", physical),
            line("rate", &rate),
            line("lid", &format!("{:#x}", self.lid.get())),
            line("lid_mask_count", &self.lmc.to_string()),
            line("sm_lid", &format!("{:#x}", self.sm_lid.get())),
            line("sm_sl", &self.sm_sl.to_string()),
            line("cap_mask", &format!("{:#010x}", self.capabilities)),
            line("link_layer", "InfiniBand"),
            line("hw_counters/lifespan", &refreshed_ms.to_string()),
        ];
        for (index, &guid) in self.guids.iter().enumerate() {
            let gid = format!("{}:{}", groups(self.gid_prefix), groups(guid));
            files.push(line(&format!("gids/{index}"), &gid));
        }
        for (index, key) in self.pkeys.iter().enumerate() {
            files.push(line(&format!("pkeys/{index}"), &format!("{key:#06x}")));
        }
        for (name, value) in &self.counters {
            files.push(line(&format!("counters/{name}"), &value.to_string()));
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use wire::{Lid, PortNum};

    use super::*;

    #[test]
    fn files_read_as_those_of_a_driver() {
        let port = AdapterPort {
            number: PortNum::new(2),
            gid_prefix: 0xfe80_0000_0000_0000,
            guids: vec![0x021b_e100_0000_0011],
            lid: Lid::new(0x1a),
            state: 4,
            physical_state: 5,
            capabilities: 0x0240_084a,
            width: 2,
            speed: [4, 2, 0],
            pkeys: vec![0xffff, 0],
            counters: vec![("port_xmit_data".to_owned(), 7)],
            ..AdapterPort::default()
        };
        let adapter = Adapter {
            node_guid: 0x021b_e100_0000_0010,
            vendor_id: MELLANOX,
            device_id: 4129,
            ports: vec![port.clone()],
            ..Adapter::default()
        };
        let files = adapter.files(500);
        let read = |path: &str| {
            let mut files = files.iter();
            files
                .find(|file| file.0 == path)
                .map(|file| file.1.as_str())
        };
        for (path, text) in [
            ("node_guid", "021b:e100:0000:0010\n"),
            ("hca_type", "MT4129\n"),
            ("ports/2/state", "4: ACTIVE\n"),
            ("ports/2/phys_state", "5: LinkUp\n"),
            ("ports/2/rate", "100 Gb/sec (4X EDR)\n"),
            ("ports/2/lid", "0x1a\n"),
            ("ports/2/cap_mask", "0x0240084a\n"),
            (
                "ports/2/gids/0",
                "fe80:0000:0000:0000:021b:e100:0000:0011\n",
            ),
            ("ports/2/pkeys/0", "0xffff\n"),
            ("ports/2/pkeys/1", "0x0000\n"),
            ("ports/2/counters/port_xmit_data", "7\n"),
            ("ports/2/hw_counters/lifespan", "500\n"),
        ] {
            assert_eq!(read(path), Some(text), "{path}");
        }
        let slow = AdapterPort {
            width: 1,
            speed: [1, 0, 0],
            ..port
        };
        assert!(slow.files(1).contains(&line("rate", "2.5 Gb/sec (1X SDR)")));
        assert_eq!(slow.gbit_per_second(), 2);
    }
}
