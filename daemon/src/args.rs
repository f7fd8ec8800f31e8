//! The options that all devices' daemons share.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use link::{ConfigError, LinkTimeouts, Pacing, PortConfig};
use wire::{Guid, LinkRate, LinkSpeed, LinkWidth, Mtu};

use netio::transport::tunnel::MTU_LEAST;
use netio::transport::{LinkSecurity, LinkSpec, TunnelOptions};

use crate::choice::{choice, plain_choice};
use crate::logging::LogArgs;

/// Records that a frame may hold unless `--frame-packets` says otherwise: as many as fit.
const FRAME_PACKETS: u16 = u16::MAX;

/// Who the device is and where its sockets stand.
#[derive(Args, Clone, Debug)]
pub struct DeviceArgs {
    /// Node description
    #[arg(long)]
    pub name: String,

    /// Name of the sockets, if the node description does not do as one
    #[arg(long)]
    pub handle: Option<String>,

    /// Node GUID, hexadecimal, with or without 0x
    #[arg(long, value_parser = guid)]
    pub guid: Guid,

    /// Directory of the fabric's sockets
    #[arg(long, value_name = "FABRIC_DIR")]
    pub dir: PathBuf,

    /// A cable: PORT=veth:INTERFACE, PORT=udp:ADDRESS, PORT=shm, PORT=tunnel:ADDRESS (each ADDRESS or ADDRESS:UDPPORT) or
    /// PORT=tunnel:fd:DESCRIPTOR, an inherited UDP socket; once for each
    #[arg(long = "link", value_name = "PORT=MEDIUM:WHERE")]
    pub links: Vec<LinkSpec>,

    /// How the datagrams of tunnels are protected; both ends need the same
    #[arg(long, value_parser = choice::<LinkSecurity>(), default_value_t = LinkSecurity::Aes128Gcm,
          value_name = "SECURITY")]
    pub link_security: LinkSecurity,

    /// The longest IP packet of a tunnel, bytes, 576 to 65535 [default: what the path takes]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(i64::from(MTU_LEAST)..))]
    pub tunnel_mtu: Option<u16>,

    /// Record all inputs and outputs of the device to this file, which must not exist yet; for
    /// ibemu sim replay
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    #[command(flatten)]
    /// What is logged, and where to.
    pub logs: LogArgs,
}

impl DeviceArgs {
    /// How its tunnels are.
    #[must_use]
    pub fn tunnels(&self) -> TunnelOptions {
        TunnelOptions {
            security: self.link_security,
            mtu: self.tunnel_mtu,
        }
    }

    /// Where the socket `<dir>/<handle>.<kind>` stands.
    #[must_use]
    pub fn socket(&self, kind: &str) -> PathBuf {
        let handle = self.handle.as_ref().unwrap_or(&self.name);
        self.dir.join(format!("{handle}.{kind}"))
    }
}

/// The configuration of the device's ports.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Link options")]
#[command(group(ArgGroup::new("pace").args(["time_scale", "unpaced"])))]
pub struct LinkArgs {
    /// Data VLs of each port, 1 to 15
    #[arg(long, default_value_t = PortConfig::default().vls)]
    pub vls: u8,

    /// Largest payload, bytes
    #[arg(long, default_value_t = Mtu::Mtu2048, value_parser = plain_choice::<Mtu>())]
    pub mtu: Mtu,

    /// Link width: physical lanes of the cable
    #[arg(long, default_value_t = LinkWidth::X4, value_parser = plain_choice::<LinkWidth>())]
    pub width: LinkWidth,

    /// Speed of a physical lane
    #[arg(long, default_value_t = LinkSpeed::Sdr, value_parser = choice::<LinkSpeed>())]
    pub speed: LinkSpeed,

    /// Links run this many times slower than real
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub time_scale: f64,

    /// Links run as fast as they can
    #[arg(long)]
    pub unpaced: bool,

    /// Input buffer of each data VL, bytes; what credits advertise
    #[arg(long, value_name = "BYTES", default_value_t = PortConfig::default().buffer_bytes)]
    pub buffer: usize,

    /// Interval of keep-alives, milliseconds: a port sends at least this often
    #[arg(long, value_name = "MS", default_value_t = 250)]
    pub keepalive_ms: u32,

    /// Time after which the link to a silent peer goes down, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub silence_ms: u32,

    /// Packets that one frame carries at most
    #[arg(long, value_name = "N", default_value_t = FRAME_PACKETS, value_parser = clap::value_parser!(u16).range(1..))]
    pub frame_packets: u16,
}

impl LinkArgs {
    /// The configuration of each port of a process that was started now: its link-ups are numbered
    /// from the time of day, so that no port is taken for one of an earlier life.
    ///
    /// # Errors
    /// [`ConfigError`]: which option is out of range.
    pub fn port_config(&self) -> Result<PortConfig, ConfigError> {
        let pacing = if self.unpaced {
            Pacing::Unpaced
        } else {
            Pacing::live(self.time_scale)?
        };
        let milliseconds = |ms: u32| u64::from(ms) * 1_000_000;
        let config = PortConfig {
            mtu: self.mtu,
            vls: self.vls,
            rate: LinkRate {
                width: self.width,
                speed: self.speed,
            },
            pacing,
            buffer_bytes: self.buffer,
            timeouts: LinkTimeouts {
                keepalive_ns: milliseconds(self.keepalive_ms),
                silence_ns: milliseconds(self.silence_ms),
            },
            epoch_seed: netio::clock::epoch(),
            ..PortConfig::default()
        };
        config.check()?;
        Ok(config)
    }
}

/// A GUID in hexadecimal, with or without 0x.
pub(crate) fn guid(text: &str) -> Result<Guid, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    wire::convert::hexadecimal(digits)
        .map(Guid)
        .ok_or_else(|| "write 1 to 16 hexadecimal digits".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Daemon {
        #[command(flatten)]
        device: DeviceArgs,
        #[command(flatten)]
        link: LinkArgs,
    }

    const LEAST: [&str; 7] = ["d", "--name", "s0", "--guid", "0x1f", "--dir", "/tmp/x"];

    fn parse(more: &[&str]) -> Result<Daemon, clap::Error> {
        Daemon::try_parse_from(LEAST.iter().chain(more))
    }

    #[test]
    fn options_become_a_port_configuration() {
        let daemon = parse(&[
            "--link",
            "1=veth:p1",
            "--link",
            "2=udp:127.0.0.1",
            "--link-security",
            "none",
            "--tunnel-mtu",
            "1500",
            "--vls",
            "4",
            "--mtu",
            "4096",
            "--width",
            "12x",
            "--speed",
            "edr",
            "--unpaced",
            "--buffer",
            "16384",
            "--keepalive-ms",
            "100",
            "--silence-ms",
            "900",
        ])
        .unwrap();
        assert_eq!(daemon.device.guid, Guid(0x1f));
        assert_eq!(daemon.device.links.len(), 2);
        let tunnels = TunnelOptions {
            security: LinkSecurity::None,
            mtu: Some(1500),
        };
        assert_eq!(daemon.device.tunnels(), tunnels);
        assert_eq!(daemon.device.socket("ctl"), PathBuf::from("/tmp/x/s0.ctl"));
        let config = daemon.link.port_config().unwrap();
        assert_eq!(config.vls, 4);
        assert_eq!(config.mtu, Mtu::Mtu4096);
        assert_eq!(config.pacing, Pacing::Unpaced);
        assert_eq!(config.buffer_bytes, 16384);
        assert_eq!(config.timeouts.silence_ns, 900_000_000);
        assert_eq!(config.rate.width, LinkWidth::X12);
    }

    #[test]
    fn options_out_of_range_are_refused() {
        for wrong in [
            ["--mtu", "1500"],
            ["--guid", "xyz"],
            ["--frame-packets", "0"],
            ["--width", "3x"],
            ["--link", "1=carrier-pigeon"],
            ["--link-security", "rot13"],
            ["--tunnel-mtu", "575"],
            ["--tunnel-mtu", "65536"],
        ] {
            assert!(parse(&wrong).is_err(), "{wrong:?}");
        }
        assert!(parse(&["--unpaced", "--time-scale", "3"]).is_err());
        let config = |more: &[&str]| parse(more).unwrap().link.port_config();
        assert!(config(&["--vls", "16"]).is_err());
        assert!(config(&["--buffer", "100"]).is_err());
        assert!(config(&["--time-scale", "0"]).is_err());
        assert!(config(&[]).is_ok());
    }
}
