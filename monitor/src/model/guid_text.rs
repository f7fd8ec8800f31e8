//! GUIDs in JSON: text, for the numbers of scripts hold 53 bits.

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;
use wire::convert::hexadecimal;

pub(super) fn serialize<S: Serializer>(guid: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{guid:#018x}"))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    let guid = text.strip_prefix("0x").and_then(hexadecimal);
    guid.ok_or_else(|| D::Error::custom(format!("{text:?} is no GUID: 0x and up to 16 digits")))
}
