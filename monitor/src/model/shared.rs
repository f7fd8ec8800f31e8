//! What snapshots share, as if each had its own.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) fn serialize<T: Serialize, S: Serializer>(
    value: &Arc<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().serialize(serializer)
}

pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Arc<T>, D::Error> {
    T::deserialize(deserializer).map(Arc::new)
}

/// Lists.
pub(super) mod list {
    use super::{Arc, Deserialize, Deserializer, Serialize, Serializer};

    pub(in crate::model) fn serialize<T: Serialize, S: Serializer>(
        list: &Arc<[T]>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        list.as_ref().serialize(serializer)
    }

    pub(in crate::model) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<[T]>, D::Error> {
        Vec::<T>::deserialize(deserializer).map(Into::into)
    }
}
