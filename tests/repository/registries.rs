//! The tables that are the feature list: unique and well spelled.

use std::{collections::BTreeSet, fs, path::Path};

use gguf_tools::commands::{BINARIES, COMMANDS, define};

fn is_lower_kebab(name: &str) -> bool {
    !name.is_empty()
        && name.split('-').all(|part| part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()))
}

#[test]
fn binaries_match_the_package() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin");
    let files: BTreeSet<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    // All are launchers of the one that contains their code.
    let names = BINARIES.iter().map(|binary| binary.name).chain(["gguf-tools"]);
    assert_eq!(files, names.map(str::to_owned).collect());
    assert_eq!(files.len(), BINARIES.len() + 1);
}

#[test]
fn commands_have_binary_unique_name_and_help() {
    let mut seen = BTreeSet::new();
    for command in COMMANDS {
        assert!(seen.insert((command.binary, command.verb)), "{:?} twice", command.verb);
        assert!(BINARIES.iter().any(|binary| binary.name == command.binary), "{}", command.binary);
        assert!(command.verb.is_none_or(is_lower_kebab));
    }
    for binary in BINARIES {
        let mut abouts = BTreeSet::new();
        assert!(COMMANDS.iter().any(|command| command.binary == binary.name), "{}", binary.name);
        assert!(is_lower_kebab(binary.name) && binary.name.starts_with("gguf-"));
        assert!(!binary.about.ends_with('.'), "{}", binary.about);
        // Panics on options that contradict each other.
        let mut definition = define(binary.name).unwrap();
        definition.clone().debug_assert();
        definition.build();
        // Descriptions of shared options in the code must not become the description of a program or a verb.
        assert_eq!(definition.get_about().map(ToString::to_string).as_deref(), Some(binary.about));
        for command in definition.get_subcommands().chain([&definition]) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty() && abouts.insert(about.clone()), "{}: {about}", command.get_name());
            assert!(command.get_long_about().is_none(), "{}", command.get_name());
            for arg in command.get_arguments() {
                assert!(arg.get_help().is_some(), "{} {arg} has no help", command.get_name());
            }
        }
    }
    assert!(define("gguf-nothing").is_none());
}

#[test]
fn recipe_and_dtype_names_do_not_conflict() {
    // People write both `q4_k` the recipe and `q4_K` the dtype; if a recipe is named as a
    // dtype, that dtype is its default.
    for recipe in gguf_conversion::recipes::RECIPES {
        assert!(recipe.name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
        if let Ok(dtype) = gguf_types::DType::from_name(recipe.name)
            && recipe.name != "IQ2_S"
        {
            assert_eq!(recipe.default, dtype, "{}", recipe.name);
        }
    }
}

#[test]
fn architectures_are_unique() {
    let mut names = BTreeSet::new();
    let mut classes = BTreeSet::new();
    for arch in gguf_models::ARCHES {
        assert!(names.insert(arch.name), "{} twice", arch.name);
        assert!(!arch.example.is_empty() && arch.example.contains('/'), "{}", arch.example);
        // Of several rows with a class all but one ask what else is known of a checkpoint.
        for class in arch.classes.iter().filter(|_| arch.fits.is_none()) {
            assert!(classes.insert(class.name), "{} twice", class.name);
        }
    }
}

#[test]
fn input_formats_are_unique() {
    let names: BTreeSet<&str> = gguf_checkpoint::FORMATS.iter().map(|format| format.name).collect();
    assert_eq!(names.len(), gguf_checkpoint::FORMATS.len());
    assert!(gguf_checkpoint::FORMATS.iter().any(|format| format.is_read()));
}

#[test]
fn codecs_are_unique() {
    let dtypes: BTreeSet<_> = gguf_quant::CODECS.iter().map(|codec| codec.dtype.id()).collect();
    assert_eq!(dtypes.len(), gguf_quant::CODECS.len());
    for codec in gguf_quant::CODECS {
        assert_eq!(gguf_quant::codec(codec.dtype).unwrap().dtype, codec.dtype);
    }
}
