//! What the map is coloured by: the state and the load of each cable at one moment.

use monitor::model::Fabric;
use monitor::{Frame, Point, Snapshot};
use serde::Serialize;
use wire::convert::saturate;

use super::map::Map;

/// One moment. Lists are in the order of the map's cables; in pairs the first is the direction from `a` to `b`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Sample {
    /// When, milliseconds since 1970.
    pub(super) at_ms: u64,
    /// State: 0 unknown, 1 Down, 2 Init, 3 Armed, 4 Active; that of the end which is less far.
    pub(super) state: Vec<u8>,
    /// Data sent, in thousandths of what the link carries.
    pub(super) load: Vec<[u16; 2]>,
    /// Time in which data waited for credits (PortXmitWait), in thousandths.
    pub(super) wait: Vec<[u16; 2]>,
    /// Errors and discards a second, of both ends.
    pub(super) errors: Vec<f32>,
    /// How full the fullest lane of the input buffers is, in thousandths: of those at `b`, which take what `a` sends, and of those
    /// at `a`. Devices tell it every few seconds.
    pub(super) fill: Vec<[u16; 2]>,
    /// By device of the map: whether the subnet manager knows it.
    pub(super) present: Vec<u8>,
    /// Why there is nothing newer, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<String>,
}

/// Which ports of the monitor the ends of the map's cables are.
#[derive(Debug, Default)]
pub(super) struct Places {
    generation: Option<u64>,
    cables: Vec<[Option<usize>; 2]>,
    devices: Vec<Option<usize>>,
    /// By cable, by end: bytes a second.
    capacity: Vec<[f64; 2]>,
}

/// Ticks of PortXmitWait a second.
const TICKS: f64 = 1e6;

impl Places {
    /// Looks the ports up, if the fabric has changed.
    pub(super) fn follow(&mut self, map: &Map, fabric: &Fabric) {
        if self.generation == Some(fabric.generation) {
            return;
        }
        self.generation = Some(fabric.generation);
        let by_guid: std::collections::BTreeMap<String, usize> = fabric
            .nodes
            .iter()
            .enumerate()
            .map(|(place, node)| (wire::Guid(node.guid).to_string(), place))
            .collect();
        let place = |device: &super::map::Device| by_guid.get(&device.guid).copied();
        self.devices = map.devices.iter().map(place).collect();
        let devices = &self.devices;
        let port = |node: usize, port| fabric.port(devices[node]?, port);
        self.cables = map
            .cables
            .iter()
            .map(|cable| cable.ends().map(|end| port(end.node, end.port)))
            .collect();
        let capacity = |place: &Option<usize>| {
            let port = place.and_then(|place| fabric.ports.get(place));
            let bits = port.map_or(0, monitor::model::Port::data_bits_per_s);
            wire::convert::real(bits) / 8.0 / map.time_scale
        };
        self.capacity = self
            .cables
            .iter()
            .map(|ends| [capacity(&ends[0]), capacity(&ends[1])])
            .collect();
    }

    /// The place of a device among the monitor's nodes.
    pub(super) fn device(&self, device: usize) -> Option<usize> {
        *self.devices.get(device)?
    }

    /// What a frame says of the map.
    pub(super) fn sample(&self, fabric: &Fabric, frame: &Frame) -> Sample {
        let mut sample = Sample {
            at_ms: frame.at_ms,
            present: self
                .devices
                .iter()
                .map(|place| {
                    let node = place.and_then(|place| fabric.nodes.get(place));
                    u8::from(node.is_some_and(|node| node.is_present))
                })
                .collect(),
            ..Sample::default()
        };
        for cable in 0..self.cables.len() {
            self.add_cable(cable, frame, &mut sample);
        }
        sample
    }

    /// How full a lane is at each cable's ends, as [`Sample::fill`] tells it of the fullest one.
    pub(super) fn lane(&self, snapshot: &Snapshot, vl: usize) -> Vec<[u16; 2]> {
        let share = |place: Option<usize>| {
            let port = snapshot.fabric.ports.get(place?)?;
            let lanes = snapshot.devices.get(port.node)?.lanes.get(&port.number)?;
            Some(lanes.get(vl)?.input_share)
        };
        let of = |place| thousandths(share(place).unwrap_or(0.0), 1.0);
        self.cables.iter().map(|&[a, b]| [of(b), of(a)]).collect()
    }

    /// What a frame says of one cable: lists of one entry.
    pub(super) fn cable_sample(&self, cable: usize, frame: &Frame) -> Sample {
        let mut sample = Sample {
            at_ms: frame.at_ms,
            ..Sample::default()
        };
        self.add_cable(cable, frame, &mut sample);
        sample
    }

    fn add_cable(&self, cable: usize, frame: &Frame, sample: &mut Sample) {
        let (ends, capacity) = (self.cables[cable], self.capacity[cable]);
        let points = ends.map(|place| place.and_then(|place| frame.points.get(place)));
        let of = |part: fn(&Point) -> f32| {
            points.map(|point| point.map_or(0.0, |point| f64::from(part(point))))
        };
        let bytes = of(|point| point.xmit_bytes_per_s);
        let waits = of(|point| point.xmit_wait_per_s);
        let errors = of(|point| point.errors_per_s);
        let states = points.map(|point| point.map_or(0, |point| point.state));
        sample.state.push(states[0].min(states[1]));
        let loads = [0, 1].map(|end| thousandths(bytes[end], capacity[end]));
        sample.load.push(loads);
        // Readings are not quite as far apart as the time between them says.
        let waits = waits.map(|wait| thousandths(wait, TICKS).min(1000));
        sample.wait.push(waits);
        let [a, b] = points.map(|point| point.map_or(0, |point| point.fill));
        sample.fill.push([b, a]);
        #[expect(clippy::cast_possible_truncation, reason = "shown with few digits")]
        sample.errors.push((errors[0] + errors[1]) as f32);
    }
}

/// A part of a whole in thousandths, up to twice the whole.
fn thousandths(part: f64, whole: f64) -> u16 {
    if whole <= 0.0 || !part.is_finite() {
        return 0;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 0 and 2000"
    )]
    let thousandths = (part / whole * 1000.0).round().clamp(0.0, 2000.0) as u64;
    saturate(thousandths)
}

/// The name of a state as a sample has it.
pub(super) const fn state_name(state: u8) -> &'static str {
    match state {
        1 => "Down",
        2 => "Init",
        3 => "Armed",
        4 => "Active",
        _ => "not known",
    }
}
