//! A routing engine by its name, in `fabric.json`.

use controller::RoutingChoice;
use serde::{Deserialize, Deserializer, Serializer, de::Error};

pub(super) fn serialize<S: Serializer>(choice: &RoutingChoice, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(choice)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<RoutingChoice, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}
