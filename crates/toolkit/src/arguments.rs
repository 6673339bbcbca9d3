//! Arguments of command lines: values from a list of names, which are parsed in any case and listed by completions, and
//! options whose value is set by several arguments.

use std::{ffi::OsStr, path::PathBuf};

use clap::{
    Arg, Command,
    builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser},
    error::{ContextKind, ContextValue, ErrorKind},
};
use gguf_conversion::imatrix::MissingPolicy;
use gguf_quant::CODECS;
use gguf_refinement::Steps;
use gguf_types::DType;

use crate::{outputs::check_output_name, suggest::nearest};

/// Heading of main options in a group with another heading.
pub const MAIN: Option<&str> = None;

/// Implements the traits of clap for a value that several arguments set. `$flags` defines the arguments.
macro_rules! value_of_flags {
    ($value:ty, $flags:ty) => {
        impl clap::FromArgMatches for $value {
            fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
                <$flags as clap::FromArgMatches>::from_arg_matches(matches).map(Into::into)
            }

            fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
                *self = <$value as clap::FromArgMatches>::from_arg_matches(matches)?;
                Ok(())
            }
        }

        impl clap::Args for $value {
            fn group_id() -> Option<clap::Id> {
                <$flags as clap::Args>::group_id()
            }

            fn augment_args(command: clap::Command) -> clap::Command {
                <$flags as clap::Args>::augment_args(command)
            }

            fn augment_args_for_update(command: clap::Command) -> clap::Command {
                <$flags as clap::Args>::augment_args_for_update(command)
            }
        }
    };
}
pub(crate) use value_of_flags;

/// Parses one of `names`.
#[derive(Debug, Clone)]
pub struct OneOf<T> {
    /// The names and their values.
    pub names: Vec<(&'static str, T)>,
    /// The listed name for other spellings.
    pub other: fn(&str) -> Option<&'static str>,
    /// Tip for some values that are not in the list.
    pub tip: fn(&str) -> Option<String>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for OneOf<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let given = value.to_string_lossy();
        let named = |given: &str| self.names.iter().find(|(name, _)| name.eq_ignore_ascii_case(given));
        if let Some((_, value)) = named(&given).or_else(|| (self.other)(&given).and_then(named)) {
            return Ok(value.clone());
        }
        let option = arg.map_or_else(String::new, Arg::to_string);
        let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
        error.insert(ContextKind::InvalidArg, ContextValue::String(option));
        error.insert(ContextKind::InvalidValue, ContextValue::String(given.clone().into_owned()));
        if let Some(tip) = (self.tip)(&given) {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
            return Err(error);
        }
        let names: Vec<String> = self.names.iter().map(|(name, _)| (*name).to_owned()).collect();
        let near = nearest(&given, names.iter().map(String::as_str));
        if !near.is_empty() {
            let tip = format!("did you mean {}?", near.join(" or ")).into();
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
        }
        error.insert(ContextKind::ValidValue, ContextValue::Strings(names));
        Err(error)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(|(name, _)| PossibleValue::new(*name))))
    }
}

/// Parses the name of one of `values`, each with a name, a help text (or an empty one) and the value.
pub fn choice<T: Clone + Send + Sync + 'static>(
    values: impl IntoIterator<Item = (&'static str, &'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let values: Vec<_> = values.into_iter().collect();
    let named = values.iter().map(|(name, help, _)| match *help {
        "" => PossibleValue::new(*name),
        help => PossibleValue::new(*name).help(help),
    });
    PossibleValuesParser::new(named.collect::<Vec<_>>()).try_map(move |given| {
        let value = values.iter().find(|(name, ..)| name.eq_ignore_ascii_case(&given));
        value.map(|(.., value)| value.clone()).ok_or("unknown value")
    })
}

/// Parses the path of an output.
pub fn output_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| check_output_name(&path).map(|()| path))
}

/// A dtype that weights can be rounded to before they are encoded.
pub fn float() -> OneOf<DType> {
    let floats = [DType::F32, DType::F16, DType::BF16];
    OneOf { names: floats.map(|dtype| (dtype.name(), dtype)).to_vec(), other: |_| None, tip: |_| None }
}

/// A dtype for FP8 matrices in files of a float type.
pub fn fp8_as() -> OneOf<DType> {
    OneOf { names: vec![(DType::Q8_0.name(), DType::Q8_0)], other: |_| None, tip: |_| None }
}

/// A dtype of llama.cpp's KV cache.
pub fn kv_type() -> OneOf<DType> {
    use DType::{BF16, F16, F32, IQ4_NL, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
    let dtypes = [F32, F16, BF16, Q8_0, Q4_0, Q4_1, IQ4_NL, Q5_0, Q5_1];
    OneOf { names: dtypes.map(|dtype| (dtype.name(), dtype)).to_vec(), other: |_| None, tip: |_| None }
}

/// A dtype that weights can be encoded as.
pub fn encodable() -> OneOf<DType> {
    let dtypes = CODECS.iter().filter(|codec| codec.encode.is_some() && codec.dtype.is_encodable());
    OneOf {
        names: dtypes.map(|codec| (codec.dtype.name(), codec.dtype)).collect(),
        other: |_| None,
        tip: |_| None,
    }
}

/// Policy for tensors without importance data.
pub fn missing_policy() -> OneOf<MissingPolicy> {
    OneOf {
        names: MissingPolicy::ALL.iter().map(|(name, policy)| (*name, *policy)).collect(),
        other: |_| None,
        tip: |_| None,
    }
}

/// A step of the rounding.
pub fn steps() -> impl TypedValueParser<Value = Steps> {
    choice(Steps::ALL.map(|steps| (steps.name(), "", steps)))
}

/// Reads a number of bits per weight.
///
/// # Errors
/// A number out of range.
pub fn parse_bits(text: &str) -> Result<f64, String> {
    let bits = text.parse::<f64>().ok().filter(|bits| (0.5..=32.0).contains(bits));
    bits.ok_or_else(|| "expected a number of bits, for example 4.25".to_owned())
}
