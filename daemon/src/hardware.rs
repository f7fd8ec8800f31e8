//! The options that say what a device is.

use clap::Args;
use link::Hardware;
use wire::convert::hexadecimal;
use wire::{Guid, LinkRate, LinkSpeed, LinkWidth};

use crate::args::guid;

/// What the device says of itself in NodeInfo and NodeDescription, and links at rates of their own.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Identity options")]
pub struct HardwareArgs {
    /// Node description, if it is not the name
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,

    /// System image GUID, hexadecimal; without it the node GUID
    #[arg(long, value_name = "HEX", value_parser = guid)]
    pub system_image_guid: Option<Guid>,

    /// Vendor number, up to 6 hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = vendor)]
    pub vendor_id: Option<u32>,

    /// Device number, up to 4 hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = device)]
    pub device_id: Option<u16>,

    /// The end node is a router
    #[arg(long)]
    pub router: bool,

    /// The switch has an enhanced port 0
    #[arg(long)]
    pub enhanced_port0: bool,

    /// GUID of an end node's port, if it is not node GUID + port number; once for each
    #[arg(long = "port-guid", value_name = "PORT=HEX", value_parser = port_guid)]
    pub port_guids: Vec<(u8, Guid)>,

    /// Width and speed of a port's link where they are not --width and --speed, as in 3=1x-sdr; once for
    /// each
    #[arg(long = "rate", value_name = "PORT=WIDTH-SPEED", value_parser = port_rate)]
    pub rates: Vec<(u8, LinkRate)>,

    /// A port without a cable that is switched off, as it shows in PortPhysicalState; once for each
    #[arg(long = "disabled-port", value_name = "PORT", value_parser = clap::value_parser!(u8).range(1..=254))]
    pub disabled_ports: Vec<u8>,
}

impl HardwareArgs {
    /// What they say.
    #[must_use]
    pub fn hardware(&self) -> Hardware {
        let default = Hardware::default();
        Hardware {
            description: self.description.clone(),
            system_image_guid: self.system_image_guid,
            vendor_id: self.vendor_id.unwrap_or(default.vendor_id),
            device_id: self.device_id.unwrap_or(default.device_id),
            is_router: self.router,
            enhanced_port0: self.enhanced_port0,
            port_guids: self.port_guids.iter().copied().collect(),
            rates: self.rates.iter().copied().collect(),
            disabled_ports: self.disabled_ports.iter().copied().collect(),
        }
    }
}

fn vendor(text: &str) -> Result<u32, String> {
    let number = hexadecimal(text.strip_prefix("0x").unwrap_or(text));
    let number = number.and_then(|number| u32::try_from(number).ok());
    number
        .filter(|number| number >> 24 == 0)
        .ok_or_else(|| "write up to 6 hexadecimal digits".to_owned())
}

fn device(text: &str) -> Result<u16, String> {
    let number = hexadecimal(text.strip_prefix("0x").unwrap_or(text));
    number
        .and_then(|number| u16::try_from(number).ok())
        .ok_or_else(|| "write up to 4 hexadecimal digits".to_owned())
}

/// A port, and what stands behind its `=`.
fn port(text: &str) -> Result<(u8, &str), String> {
    let bad = || "write PORT=VALUE with a port from 1 to 254".to_owned();
    let (port, value) = text.split_once('=').ok_or_else(bad)?;
    let port = port.parse().ok().filter(|port| (1..=254).contains(port));
    Ok((port.ok_or_else(bad)?, value))
}

fn port_guid(text: &str) -> Result<(u8, Guid), String> {
    let (port, value) = port(text)?;
    Ok((port, guid(value)?))
}

fn port_rate(text: &str) -> Result<(u8, LinkRate), String> {
    let (port, value) = port(text)?;
    let (width, speed) = value
        .split_once('-')
        .ok_or("write PORT=WIDTH-SPEED, as in 3=1x-sdr")?;
    let width: LinkWidth = width.parse().map_err(|error| format!("{error}"))?;
    let speed: LinkSpeed = speed.parse().map_err(|error| format!("{error}"))?;
    Ok((port, LinkRate { width, speed }))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Daemon {
        #[command(flatten)]
        hardware: HardwareArgs,
    }

    #[test]
    fn options_say_what_a_device_is() {
        let line = "d --description x --system-image-guid 0x50 --vendor-id 0x2c9 --device-id d2f2 --router \
                    --port-guid 1=60 --rate 3=1x-sdr --rate 2=4x-fdr10 --disabled-port 4";
        let daemon = Daemon::try_parse_from(line.split_whitespace()).unwrap();
        let hardware = daemon.hardware.hardware();
        assert_eq!((hardware.vendor_id, hardware.device_id), (0x2c9, 0xd2f2));
        assert_eq!(hardware.system_image_guid, Some(Guid(0x50)));
        assert_eq!(hardware.port_guids.get(&1), Some(&Guid(0x60)));
        assert!(hardware.is_router && !hardware.enhanced_port0);
        let slow = LinkRate {
            width: LinkWidth::X1,
            speed: LinkSpeed::Sdr,
        };
        assert_eq!(hardware.rates.get(&3), Some(&slow));
        assert!(hardware.disabled_ports.iter().eq(&[4]));
        let none = Daemon::try_parse_from(["d"]).unwrap();
        assert_eq!(none.hardware.hardware(), Hardware::default());
        for wrong in [
            "--vendor-id=1000000",
            "--device-id=12345",
            "--port-guid=0=1",
            "--port-guid=1",
            "--rate=1=4x",
            "--rate=255=4x-hdr",
            "--rate=1=3x-hdr",
            "--disabled-port=0",
        ] {
            assert!(Daemon::try_parse_from(["d", wrong]).is_err(), "{wrong}");
        }
    }
}
