//! Options of which a command takes only some values.

use std::ffi::OsStr;
use std::marker::PhantomData;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error, ValueEnum};

use crate::cli::HostsArg;
use crate::driver::Driver;

/// The same option, whose help lists only these values, or none. It still takes all of them, so that the command can
/// refuse the others with a reason.
pub(super) fn only(option: Arg, names: &'static [&'static str]) -> Arg {
    match option.get_id().as_str() {
        "driver" => option.value_parser(Only::<Driver>(names, PhantomData)),
        "hosts" => option.value_parser(Only::<HostsArg>(names, PhantomData)),
        _ => option,
    }
}

#[derive(Clone)]
struct Only<T>(&'static [&'static str], PhantomData<T>);

impl<T: ValueEnum + Clone + Send + Sync + 'static> TypedValueParser for Only<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, option: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        EnumValueParser::<T>::new().parse_ref(command, option, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let all = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let these = all.filter(|value| self.0.contains(&value.get_name()));
        (!self.0.is_empty()).then(|| Box::new(these) as _)
    }
}
