//! What the keys of a group may be, and which go together.

use hostd::control::{GROUP_PACKET_BYTES_MIN, PACKET_BYTES_MIN, WINDOW_MAX};

use super::{GroupPlan, SECONDS_MAX, What};

/// The longest packet: the largest MTU and headers, bytes.
const PACKET_BYTES_MAX: u16 = 4222;
/// Which of a destination's LIDs is the last that an LMC of 7 gives.
const DLID_OFFSET_MAX: u16 = 127;

impl GroupPlan {
    /// What holds of multicast alone.
    fn check_multicast(&self) -> Result<(), String> {
        if !self.is_multicast() {
            return match self.senders.as_slice() {
                [] => Ok(()),
                _ => Err("senders belong to multicast".to_owned()),
            };
        }
        for (key, is_given) in [
            ("window", self.window.is_some()),
            ("sl", self.sl.is_some()),
            ("dlid_offset", self.dlid_offset.is_some()),
            ("class", self.class.is_some()),
        ] {
            if is_given {
                return Err(format!(
                    "{key}: multicast has none; nobody acknowledges its packets, and their LID and service level are the group's"
                ));
            }
        }
        match self.size {
            Some(size) if size < GROUP_PACKET_BYTES_MIN => Err(format!(
                "size {size}: a packet to a group has {GROUP_PACKET_BYTES_MIN} bytes at least"
            )),
            _ => Ok(()),
        }
    }

    /// That all keys together make sense.
    pub(in crate::traffic) fn check(&self) -> Result<(), String> {
        self.check_multicast()?;
        let sizes = PACKET_BYTES_MIN..=PACKET_BYTES_MAX;
        match self {
            Self {
                size: Some(size), ..
            } if !sizes.contains(size) => Err(format!(
                "size {size}: {PACKET_BYTES_MIN} to {PACKET_BYTES_MAX} bytes"
            )),
            Self {
                window: Some(window),
                ..
            } if *window > WINDOW_MAX => Err(format!("window {window}: 0 to {WINDOW_MAX} packets")),
            Self {
                window: Some(0),
                rate: None,
                ..
            } => Err("window 0 needs a rate".to_owned()),
            Self {
                pattern: Some(What::Pattern(_)) | None,
                bytes,
                iterations,
                ..
            } if bytes.is_some() || iterations.is_some() => {
                Err("bytes and iterations belong to a collective".to_owned())
            }
            Self {
                class: None,
                deadline: Some(_),
                ..
            } => Err("deadline belongs to a class".to_owned()),
            Self {
                deadline: Some(deadline),
                ..
            } if !(*deadline > 0.0 && *deadline <= 1000.0) => Err(format!(
                "deadline {deadline}: above 0, at most 1000 inter-arrival times"
            )),
            Self {
                pattern: Some(What::Collective(_)),
                class: Some(_),
                ..
            } => Err("class: a collective has none".to_owned()),
            Self { count: Some(0), .. } => Err("count 0: 1 or more".to_owned()),
            Self {
                count: Some(_),
                seconds: Some(_),
                ..
            } => Err("count and seconds: one of them".to_owned()),
            Self {
                seconds: Some(seconds),
                ..
            } if !(*seconds > 0.0 && *seconds <= SECONDS_MAX) => {
                Err(format!("seconds {seconds}: above 0, at most {SECONDS_MAX}"))
            }
            Self { start, .. } if !(0.0..=SECONDS_MAX).contains(start) => {
                Err(format!("start {start}: 0 to {SECONDS_MAX} seconds"))
            }
            Self {
                dlid_offset: Some(offset),
                ..
            } if *offset > DLID_OFFSET_MAX => {
                Err(format!("dlid_offset {offset}: 0 to {DLID_OFFSET_MAX}"))
            }
            _ => Ok(()),
        }
    }
}
