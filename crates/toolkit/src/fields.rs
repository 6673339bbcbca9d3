//! Facts of an error as separate fields, for programs that do not want to parse the message.

use gguf_conversion::imatrix::ImatrixError;

use crate::cause::Cause;

/// Known facts of an error. All are strings, because they come from many types; sizes have the unit given in
/// the message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fields {
    /// A file inside of the folder that was given.
    pub file: Option<String>,
    /// The tensor.
    pub tensor: Option<String>,
    /// The key, of a config or of metadata.
    pub key: Option<String>,
    /// Expected value.
    pub expected: Option<String>,
    /// Found value.
    pub found: Option<String>,
}

/// The named fields, with these values or those of the variables of their names.
macro_rules! fields {
    (@value $field:ident) => { $field };
    (@value $field:ident $value:expr) => { $value };
    ($($field:ident $(: $value:expr)?),* $(,)?) => {
        Fields { $($field: Some(fields!(@value $field $($value)?).to_string()),)* ..Fields::default() }
    };
}

impl Fields {
    /// Fields of a cause.
    pub(crate) fn of(cause: &Cause) -> Fields {
        match cause {
            Cause::Conversion(error) => conversion_fields(error),
            Cause::Container(error) => container_fields(error),
            Cause::Evaluation(error) => evaluation_fields(error),
            Cause::Codec(error) => codec_fields(error),
            Cause::DType(gguf_types::DTypeError::UnknownName { name }) => fields!(found: name),
            Cause::Imatrix(error) => imatrix_fields(error),
            Cause::Shape { found, expected, .. } => fields!(found, expected),
            Cause::TensorBytes { tensor, expected, found } => fields!(tensor, expected, found),
            _ => Fields::default(),
        }
    }

    fn with_tensor(self, tensor: &str) -> Fields {
        Fields { tensor: Some(tensor.to_owned()), ..self }
    }
}

fn conversion_fields(error: &gguf_conversion::Error) -> Fields {
    use gguf_conversion::Error as E;
    match error {
        E::Source(error) => source_fields(error),
        E::Arch(error) => arch_fields(error),
        E::Read(error) => read_fields(error),
        E::Gguf(error) | E::AdapterFile { error, .. } => container_fields(error),
        E::Imatrix(error) => imatrix_fields(error),
        E::Recipe(error) => recipe_fields(error),
        E::Encode { tensor, error } => codec_fields(error).with_tensor(tensor),
        E::NeedsImatrix { tensor, .. } => fields!(tensor, expected: "an importance matrix"),
        E::NotInImatrix { tensor, .. } => fields!(tensor, expected: "an entry of the importance matrix"),
        E::Requantize { tensor, from, to } => fields!(tensor, expected: to, found: from),
        E::Shape { tensor, .. } | E::PartGap { tensor, .. } => fields!(tensor),
        E::NoSuchTensor { name, .. } => fields!(tensor: name),
        E::RowsDiffer { tensor, found, expected, .. } => fields!(tensor, expected, found),
        E::NonFinite { tensor, value, .. } => fields!(tensor, expected: "a finite number", found: value),
        E::Overflow { tensor, value, dtype, .. } => {
            fields!(tensor, expected: format_args!("a value of {dtype}"), found: value)
        }
        E::KeyOverrideRange { key, value, type_name } => fields!(key, expected: type_name, found: value),
        _ => Fields::default(),
    }
}

fn recipe_fields(error: &gguf_conversion::recipes::RecipeError) -> Fields {
    use gguf_conversion::recipes::RecipeError as E;
    match error {
        E::UnknownRecipe { name } => fields!(found: name),
        E::Key(error) => key_fields(error),
        E::NoLayer { name } => fields!(tensor: name),
        E::LayerOutOfRange { name, layer, n_layer } => {
            fields!(tensor: name, expected: format_args!("a layer below {n_layer}"), found: layer)
        }
        E::NoFallback { name, row_elems, .. } => fields!(tensor: name, found: row_elems),
        _ => Fields::default(),
    }
}

fn imatrix_fields(error: &ImatrixError) -> Fields {
    match error {
        ImatrixError::Invalid { entry, value, .. } => {
            fields!(tensor: entry, expected: "a finite number of at least 0", found: value)
        }
        ImatrixError::WrongSize { tensor, expected, found } => fields!(tensor, expected, found),
        ImatrixError::NoNeighbour { tensor, .. } => fields!(tensor),
        _ => Fields::default(),
    }
}

fn codec_fields(error: &gguf_quant::CodecError) -> Fields {
    match error {
        gguf_quant::CodecError::Length { found, expected, .. } => fields!(expected, found),
        gguf_quant::CodecError::NeedsWeights { .. } => fields!(expected: "importance weights"),
        _ => Fields::default(),
    }
}

fn read_fields(error: &gguf_checkpoint::ReadError) -> Fields {
    use gguf_checkpoint::ReadError as E;
    match error {
        E::Unreadable { tensor, dtype } => fields!(tensor, found: dtype),
        E::OutOfRange { tensor, .. } => fields!(tensor),
        E::Length { tensor, expected, found } => fields!(tensor, expected, found),
        E::NoValue { tensor, expected, found, .. } => fields!(tensor, expected, found),
        E::OutOfFile { file, end, len, .. } => fields!(file, expected: end, found: len),
        E::NotFetched { file, .. } => fields!(file),
        _ => Fields::default(),
    }
}

fn source_fields(error: &gguf_checkpoint::Error) -> Fields {
    use gguf_checkpoint::Error as E;
    match error {
        E::Read(error) => read_fields(error),
        E::Io { file, .. }
        | E::NotReadYet { file, .. }
        | E::Foreign { file, .. }
        | E::MissingFile { file }
        | E::FileTooLarge { file, .. }
        | E::Json { file, .. }
        | E::MissingShard { file, .. }
        | E::ShardOutside { file, .. }
        | E::LinkOutside { file, .. }
        | E::Pickle { file, .. }
        | E::Zip { file, .. }
        | E::NoTensors { file } => fields!(file),
        E::NoWeights { expected } => fields!(expected: expected.join(", ")),
        E::UnknownMethod { file, method } => fields!(file, found: method),
        E::MethodNotRead { method, .. } => fields!(found: method),
        E::CodesOfNoMethod { tensor, dtype, .. } | E::CodesWithoutScales { tensor, dtype } => {
            fields!(tensor, found: dtype)
        }
        E::ScalesWithoutCodes { tensor } | E::PartMissing { tensor, .. } | E::StridedCodes { tensor, .. } => {
            fields!(tensor)
        }
        E::PartShape { tensor, expected, found, .. } => {
            fields!(tensor, expected, found: format_args!("{found:?}"))
        }
        E::PartForm { tensor, expected, found } => fields!(tensor, expected, found),
        E::PartBytes { tensor, expected, found } => fields!(tensor, expected, found),
        E::PartValue { tensor, expected, found, .. } => fields!(tensor, expected, found),
        E::JsonForm { file, expected, found } => fields!(file, expected, found),
        E::HeaderCut { file, expected, found } => fields!(file, expected, found),
        E::DuplicateTensor { tensor, first, .. } => fields!(file: first, tensor),
        E::UnknownDtype { file, tensor, found } => fields!(file, tensor, found),
        E::BadShape { file, tensor, shape, .. } => fields!(file, tensor, found: format_args!("{shape:?}")),
        E::SizeMismatch { file, tensor, expected, begin, end, .. } => {
            fields!(file, tensor, expected, found: end.saturating_sub(*begin))
        }
        E::NotContiguous { file, tensor, expected, found } => fields!(file, tensor, expected, found),
        E::FileLength { file, expected, found } => fields!(file, expected, found),
        E::NotAPickle { file, found } => fields!(file, found),
        E::ShardsDiffer { files, tensor, .. } => fields!(file: files, tensor),
        E::IndexMismatch { index, .. } => fields!(file: index),
        _ => Fields::default(),
    }
}

fn arch_fields(error: &gguf_layout::ArchError) -> Fields {
    use gguf_layout::ArchError as E;
    match error {
        E::UnknownClass { class, nearest, .. } | E::NoProjector { class, nearest } => {
            fields!(file: "config.json", key: "architectures", expected: nearest.join(", "), found: class)
        }
        E::UnknownName { name, nearest } => fields!(expected: nearest.join(", "), found: name),
        E::MissingKey { file, key } => fields!(file, key),
        E::BadKey { file, key, found, expected } => fields!(file, key, expected, found),
        E::BadNumber { key, found, expected } => fields!(key, expected, found),
        E::MissingTensors { names } | E::UnusedTensors { names, .. } | E::NotLora { names } => {
            names.first().map_or_else(Fields::default, |name| fields!(tensor: name))
        }
        E::SameOutput { output, .. } => fields!(tensor: output),
        E::BadIds { name, .. } | E::AdapterTarget { name, .. } | E::Shape { name, .. } => {
            fields!(tensor: name)
        }
        E::TensorShape { name, found, expected } => {
            fields!(tensor: name, expected, found: format_args!("{:?}", found.dims()))
        }
        _ => Fields::default(),
    }
}

fn key_fields(error: &gguf_container::KeyError) -> Fields {
    match error {
        gguf_container::KeyError::Missing { key } => fields!(key),
        gguf_container::KeyError::Value { key, expected, found } => fields!(key, expected, found),
        _ => Fields::default(),
    }
}

fn container_fields(error: &gguf_container::Error) -> Fields {
    use gguf_container::Error as E;
    match error {
        E::Magic { found } => fields!(expected: "GGUF", found: found.escape_ascii()),
        E::Version { found } => fields!(expected: "a version from 1 to 3", found),
        E::Truncated { needed, left, .. } => fields!(expected: needed, found: left),
        E::CountTooLarge { count, .. } => fields!(found: count),
        E::DuplicateKey { key } | E::ValueType { key, .. } | E::TooDeep { key, .. } => fields!(key),
        E::BadBool { key, found, .. } => fields!(key, expected: "0 or 1", found),
        E::AlignmentType { found } => fields!(key: "general.alignment", expected: "u32", found),
        E::Alignment { found, expected } => fields!(key: "general.alignment", expected, found),
        E::DuplicateTensor { name } => fields!(tensor: name),
        E::Shape { tensor, .. } | E::DType { tensor, .. } | E::OffsetOverflow { tensor, .. } => {
            fields!(tensor)
        }
        E::Misaligned { tensor, offset, alignment } => {
            fields!(tensor, expected: format_args!("a multiple of {alignment}"), found: offset)
        }
        E::OutOfFile { tensor, offset, n_bytes, file_len } => {
            fields!(tensor, expected: offset.saturating_add(*n_bytes), found: file_len)
        }
        E::Overlap { second, .. } => fields!(tensor: second),
        E::Exists { path } | E::NotAFile { path } | E::Busy { path } | E::Io { path, .. } => {
            fields!(file: path.display())
        }
        E::OpenFiles { needed, limit, .. } => fields!(expected: needed, found: limit),
        E::NoSpace { folder, needed, free } => fields!(file: folder.display(), expected: needed, found: free),
        E::Changed { path, change } => fields!(file: path.display(), found: change),
        E::Length { path, expected, found } => fields!(file: path.display(), expected, found),
        E::Shard { path, source } => {
            Fields { file: Some(path.display().to_string()), ..container_fields(source) }
        }
        E::ShardMissing { path, .. } | E::ShardName { path, .. } => fields!(file: path.display()),
        E::ShardKey { path, key, expected, found } => fields!(file: path.display(), key, expected, found),
        E::ShardCount { path, key, found } => {
            fields!(file: path.display(), key, expected: "an integer of 0 or more", found)
        }
        E::ShardTensors { expected, found } => fields!(expected, found),
        E::AdapterArchitecture { expected, found } => fields!(expected, found),
        E::NotAnAdapter { key, expected, found } => fields!(key, expected, found),
        E::AdapterTensor { tensor, .. } => fields!(tensor),
        E::AdapterShape { tensor, found, .. } => fields!(tensor, found),
        _ => Fields::default(),
    }
}

fn evaluation_fields(error: &gguf_runtime::Error) -> Fields {
    use gguf_runtime::Error as E;
    match error {
        E::Gguf(error) => container_fields(error),
        E::Key(error) => key_fields(error),
        E::UnknownArchitecture { name } => fields!(key: "general.architecture", found: name),
        E::DraftAlone { architecture } => fields!(key: "general.architecture", found: architecture),
        E::DraftWidth { expected, found } => fields!(expected, found),
        E::MissingTensor { name } => fields!(tensor: name),
        E::TensorShape { name, expected, found } => fields!(tensor: name, expected, found),
        E::TensorType { name, dtype } => fields!(tensor: name, found: dtype),
        E::UnusedTensors { names, .. } => {
            names.first().map_or_else(Fields::default, |name| fields!(tensor: name))
        }
        E::TooShort { found, needed } => fields!(expected: needed, found),
        E::TooLong { found, limit } => fields!(expected: limit, found),
        E::VocabDiffers { expected, found } => fields!(expected, found),
        E::OutOfRange { found, expected, .. } => fields!(expected, found),
        E::NotFinite { tensor, .. } => fields!(tensor, expected: "a finite number"),
        E::NotFiniteResult { weight: Some((tensor, _)), .. } => fields!(tensor, expected: "a finite number"),
        _ => Fields::default(),
    }
}
