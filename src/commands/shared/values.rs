//! Values from a list of names: parsed in any case and listed by completions. Errors suggest the nearest names.

use std::{ffi::OsStr, sync::LazyLock};

use clap::{
    Arg, Command,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
    error::{ContextKind, ContextValue, ErrorKind},
};
use gguf_toolkit::{
    DType, FORK_TYPES, FileType, ForeignFormat, MissingPolicy, Recipe, foreign_formats, quant::CODECS,
    suggest::nearest, types,
};

/// Parses one of `names`.
#[derive(Debug, Clone)]
pub(in crate::commands) struct OneOf<T> {
    names: Vec<(&'static str, T)>,
    /// Tip for some values that are not in the list.
    tip: fn(&str) -> Option<String>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for OneOf<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let given = value.to_string_lossy();
        if let Some((_, value)) = self.names.iter().find(|(name, _)| name.eq_ignore_ascii_case(&given)) {
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

/// Parses the name of one of these values: name, help (may be empty) and value.
pub(in crate::commands) fn choice<T: Clone + Send + Sync + 'static>(
    values: impl IntoIterator<Item = (&'static str, &'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let values: Vec<_> = values.into_iter().collect();
    let named = values.iter().map(|(name, help, _)| match *help {
        "" => PossibleValue::new(*name),
        help => PossibleValue::new(*name).help(help),
    });
    PossibleValuesParser::new(named.collect::<Vec<_>>()).try_map(move |given| {
        let value = values.iter().find(|(name, ..)| *name == given);
        value.map(|(.., value)| value.clone()).ok_or("unknown value")
    })
}

/// Advice for names that are not file types of llama.cpp: tensor types, publishers' names, types of forks.
pub(in crate::commands) fn type_tip(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    if Recipe::from_name(&name).is_ok() {
        return None;
    }
    if let Some(usual) = usual_type(&name) {
        return Some(format!(
            "did you mean {usual}? docs/guides/choosing-a-type.md compares the types with this number of bits"
        ));
    }
    if name == "mxfp4" {
        return Some(
            "use mxfp4_moe for the experts, or --tensor-type PATTERN=mxfp4 for other tensors".to_owned(),
        );
    }
    if DType::ALL.iter().any(|dtype| dtype.name().eq_ignore_ascii_case(&name)) {
        return Some(format!("{name} is a tensor type: use --tensor-type PATTERN={name}"));
    }
    // Publishers' names: a mix with the embedding and the output in 8 bits.
    if let Some(base) = name.strip_suffix("_l").or_else(|| name.strip_suffix("_xl"))
        && let Some(mix) =
            [format!("{base}_m"), base.to_owned()].iter().find(|mix| Recipe::from_name(mix).is_ok())
    {
        return Some(format!(
            "for {name}, use {mix} with --token-embedding-type q8_0 --output-tensor-type q8_0"
        ));
    }
    let fork = FORK_TYPES.iter().find(|fork| fork.name == name)?;
    Some(format!("{name} is a type of {} that llama.cpp does not have", fork.fork))
}

/// The usual file type of names that only state a number of bits: `q4`, `int4`, `4bit`, `4-bit`.
fn usual_type(name: &str) -> Option<&'static str> {
    let bits = name.strip_prefix('q').or_else(|| name.strip_prefix("int"));
    let bits = bits.or_else(|| name.strip_suffix("bit").map(|bits| bits.trim_end_matches('-')));
    let known =
        [("2", "q2_k"), ("3", "q3_k_m"), ("4", "q4_k_m"), ("5", "q5_k_m"), ("6", "q6_k"), ("8", "q8_0")];
    known.iter().find(|(number, _)| bits == Some(number)).map(|(_, usual)| *usual)
}

/// A file type that can be made of a checkpoint, by its name. Numbers are refused: in llama.cpp's programs
/// `-t 8` is a number of threads.
pub(in crate::commands) fn file_type() -> OneOf<&'static Recipe> {
    static NAMES: LazyLock<Vec<(String, &Recipe)>> = LazyLock::new(|| {
        let recipes = types().iter().filter(|recipe| !recipe.copy);
        recipes.map(|recipe| (recipe.name.to_ascii_lowercase(), recipe)).collect()
    });
    OneOf {
        names: NAMES.iter().map(|(name, recipe)| (name.as_str(), *recipe)).collect(),
        tip: |given| {
            if given.eq_ignore_ascii_case("copy") {
                return Some("use f32, f16 or bf16 to keep the weights of a checkpoint".to_owned());
            }
            if let Some(tip) = type_tip(given) {
                return Some(tip);
            }
            given.parse::<u64>().ok()?;
            let of_type = Recipe::from_name(given).map(|recipe| {
                format!("; file type {given} is `--type {}`", recipe.name.to_ascii_lowercase())
            });
            Some(format!("{given} threads are `--threads {given}`{}", of_type.unwrap_or_default()))
        },
    }
}

/// A file type that can be made of a GGUF file, by its name; COPY as well.
pub(in crate::commands) fn output_type() -> OneOf<&'static Recipe> {
    let OneOf { mut names, tip } = file_type();
    names.extend(types().iter().filter(|recipe| recipe.copy).map(|recipe| (recipe.name, recipe)));
    OneOf { names, tip }
}

/// The same as [`file_type`], or `auto`.
pub(in crate::commands) fn type_name() -> OneOf<FileType> {
    let OneOf { names, tip } = file_type();
    let named = names.into_iter().map(|(name, recipe)| (name, FileType::Named(recipe)));
    OneOf { names: named.chain([("auto", FileType::Auto)]).collect(), tip }
}

/// A dtype that weights can be rounded to before they are encoded.
pub(in crate::commands) fn float() -> OneOf<DType> {
    let floats = [DType::F32, DType::F16, DType::BF16];
    OneOf { names: floats.map(|dtype| (dtype.name(), dtype)).to_vec(), tip: |_| None }
}

/// A dtype for FP8 matrices in files of a float type.
pub(in crate::commands) fn fp8_as() -> OneOf<DType> {
    OneOf { names: vec![(DType::Q8_0.name(), DType::Q8_0)], tip: |_| None }
}

/// Format of the output; `None` for GGUF. With its own name, so that it is one value of an option.
pub(in crate::commands) type OutputFormat = Option<&'static ForeignFormat>;

/// A format of the output.
pub(in crate::commands) fn output_format() -> OneOf<OutputFormat> {
    let foreign = foreign_formats().iter().map(|format| (format.name, Some(format)));
    OneOf {
        names: [("gguf", None)].into_iter().chain(foreign).collect(),
        tip: |given| {
            let is_folder =
                ["hf", "transformers", "safetensors"].contains(&given.to_ascii_lowercase().as_str());
            is_folder.then(|| "use `gguf-convert export` to write a checkpoint folder".to_owned())
        },
    }
}

/// A dtype of llama.cpp's KV cache.
pub(in crate::commands) fn kv_type() -> OneOf<DType> {
    use DType::{BF16, F16, F32, IQ4_NL, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
    let dtypes = [F32, F16, BF16, Q8_0, Q4_0, Q4_1, IQ4_NL, Q5_0, Q5_1];
    OneOf { names: dtypes.map(|dtype| (dtype.name(), dtype)).to_vec(), tip: |_| None }
}

/// A dtype that weights can be encoded as.
pub(in crate::commands) fn encodable() -> OneOf<DType> {
    let dtypes = CODECS.iter().filter(|codec| codec.encode.is_some() && codec.dtype.is_encodable());
    OneOf { names: dtypes.map(|codec| (codec.dtype.name(), codec.dtype)).collect(), tip: |_| None }
}

/// Policy for tensors without importance data.
pub(in crate::commands) fn missing_policy() -> OneOf<MissingPolicy> {
    OneOf { names: MissingPolicy::ALL.iter().map(|(name, policy)| (*name, *policy)).collect(), tip: |_| None }
}
