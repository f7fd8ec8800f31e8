//! Choices on the command line: the allowed values, and their lines of `--help`, from the list of
//! a [`Choice`].

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use wire::choice::Choice;

/// Takes the name of one of the values; `--help` has a line for each.
#[must_use]
pub fn choice<T: Choice + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let values = T::VARIANTS
        .iter()
        .map(|&value| PossibleValue::new(value.name()).help(value.about()));
    PossibleValuesParser::new(values).try_map(|name| T::from_name(&name))
}

/// As [`choice`], where the names speak for themselves: `--help` has them in one line.
#[must_use]
pub fn plain_choice<T: Choice + Send + Sync>() -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(T::names()).try_map(|name| T::from_name(&name))
}
