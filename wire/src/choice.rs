//! Choices among named values: engines, schemes, speeds.
//!
//! A choice is one enum where its meaning lives. Its names come from the variants (`strum`), what
//! a help text says of each from the variants' doc comments. [`choice!`](crate::choice!) adds what
//! reads and writes the name: [`Display`](core::fmt::Display), [`FromStr`](core::str::FromStr) and
//! serde. Command lines, daemons' arguments, plans and files take it from there, and help texts
//! list [`Choice::names`].
//!
//! ```
//! use strum::{EnumMessage, IntoStaticStr, VariantArray};
//!
//! /// How a cable is made.
//! #[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
//! #[strum(serialize_all = "kebab-case")]
//! enum Material {
//!     /// Copper, up to 7 m.
//!     Copper,
//!     /// An active optical cable.
//!     ActiveOptical,
//! }
//! wire::choice!(Material, "material");
//!
//! assert_eq!("active-optical".parse(), Ok(Material::ActiveOptical));
//! assert_eq!(
//!     "string".parse::<Material>().unwrap_err().to_string(),
//!     "no material is called \"string\"; there are copper, active-optical"
//! );
//! ```

use strum::{EnumMessage, VariantArray};
use thiserror::Error;

/// One of several values, each with a name.
pub trait Choice: Copy + EnumMessage + Into<&'static str> + VariantArray {
    /// What is chosen, as messages call it.
    const WHAT: &'static str;

    /// The name of this value.
    #[must_use]
    fn name(self) -> &'static str {
        self.into()
    }

    /// What a help text says of this value: its doc comment.
    #[must_use]
    fn about(self) -> &'static str {
        self.get_documentation()
            .map_or("", |text| text.trim_end_matches('.'))
    }

    /// The names of all values, in the order of help texts.
    fn names() -> impl Iterator<Item = &'static str> {
        Self::VARIANTS.iter().map(|&value| value.name())
    }

    /// The value of this name.
    ///
    /// # Errors
    /// [`UnknownName`] if no value has it.
    fn from_name(given: &str) -> Result<Self, UnknownName> {
        let mut all = Self::VARIANTS.iter().copied();
        all.find(|value| value.name() == given)
            .ok_or_else(|| UnknownName {
                what: Self::WHAT,
                given: given.to_owned(),
                names: Self::names().collect(),
            })
    }
}

/// A name that none of the values has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no {what} is called {given:?}; there are {}", names.join(", "))]
pub struct UnknownName {
    /// What was to be chosen.
    pub what: &'static str,
    /// What was given.
    pub given: String,
    /// What there is.
    pub names: Vec<&'static str>,
}

#[doc(hidden)]
pub mod private {
    pub use serde_core as serde;
}

/// Makes an enum a [`Choice`](crate::choice::Choice): reading and writing by name, in text and in
/// serde. See [the module](mod@crate::choice).
#[macro_export]
macro_rules! choice {
    ($name:ty, $what:literal) => {
        impl $crate::choice::Choice for $name {
            const WHAT: &'static str = $what;
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.pad($crate::choice::Choice::name(*self))
            }
        }

        impl ::core::str::FromStr for $name {
            type Err = $crate::choice::UnknownName;

            fn from_str(given: &str) -> ::core::result::Result<Self, Self::Err> {
                $crate::choice::Choice::from_name(given)
            }
        }

        impl $crate::choice::private::serde::Serialize for $name {
            fn serialize<S: $crate::choice::private::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::core::result::Result<S::Ok, S::Error> {
                serializer.serialize_str($crate::choice::Choice::name(*self))
            }
        }

        impl<'de> $crate::choice::private::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::choice::private::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::core::result::Result<Self, D::Error> {
                use $crate::choice::private::serde::de::Error;
                let name = String::deserialize(deserializer)?;
                name.parse().map_err(D::Error::custom)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkSpeed, LinkWidth, Mtu};

    fn names_read_back<T: Choice + PartialEq + core::fmt::Debug>() {
        for &value in T::VARIANTS {
            assert_eq!(T::from_name(value.name()), Ok(value));
            assert!(!value.about().is_empty(), "{}", value.name());
        }
    }

    #[test]
    fn every_value_has_a_name_that_reads_back_and_a_line_of_help() {
        names_read_back::<LinkSpeed>();
        names_read_back::<LinkWidth>();
        names_read_back::<Mtu>();
        assert_eq!(
            LinkWidth::names().collect::<Vec<_>>().join(" "),
            "1x 2x 4x 8x 12x"
        );
        assert_eq!(Mtu::Mtu2048.to_string(), "2048");
        assert_eq!(format!("{:>6}|", LinkSpeed::Fdr10), " fdr10|");
    }

    #[test]
    fn serde_writes_the_name_and_refuses_others_with_the_list() {
        assert_eq!(serde_json::to_string(&LinkSpeed::Qdr).unwrap(), "\"qdr\"");
        let read: LinkWidth = serde_json::from_str("\"12x\"").unwrap();
        assert_eq!(read, LinkWidth::X12);
        let refused = serde_json::from_str::<LinkWidth>("\"3x\"").unwrap_err();
        assert!(
            refused.to_string().contains("1x, 2x, 4x, 8x, 12x"),
            "{refused}"
        );
    }
}
