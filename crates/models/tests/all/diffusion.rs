//! Detection of diffusion models: the row of a checkpoint, and the order of the rows.

use std::collections::{BTreeMap, BTreeSet};

use gguf_layout::Diffusion;
use gguf_models::FAMILIES;

/// A checkpoint with the names of one alternative of a row, and the extents of the row.
fn checkpoint(row: &'static Diffusion, names: &'static [String]) -> BTreeMap<&'static str, u64> {
    let mut tensors: BTreeMap<_, _> = names.iter().map(|name| (name.as_str(), 64)).collect();
    tensors.extend(row.extents.iter().map(|(name, extent)| (name.as_str(), *extent)));
    tensors
}

#[test]
fn every_alternative_leads_to_its_row() {
    assert_eq!(FAMILIES.diffusion.len(), 69);
    for row in FAMILIES.diffusion.iter() {
        for names in &row.detect {
            let tensors = checkpoint(row, names);
            let found = FAMILIES.detect_diffusion(|name| tensors.get(name).copied());
            let found = found.unwrap_or_else(|| panic!("{}: {names:?}", row.name));
            assert_eq!(found.row, row, "{names:?}");
            let refused = row.refused.iter().map(String::as_str).find(|name| tensors.contains_key(name));
            assert_eq!(found.refused, refused, "{names:?}");
        }
    }
}

#[test]
fn names_of_the_community_loader_have_rows() {
    let loaded: BTreeSet<&str> =
        FAMILIES.diffusion.iter().filter(|row| row.loads()).map(|row| row.name.as_str()).collect();
    assert_eq!(loaded.len(), 12, "{loaded:?}");
    assert!(FAMILIES.diffusion("llama").is_none());
}

#[test]
fn rows_of_a_file_come_first_and_take_fields_from_others() {
    let text = r#"
        [[model]]
        like = "wan"
        architecture = "wan_next"
        detect = [["blocks.0.self_attn.norm_q.weight", "next.weight"]]
        modules = "flux"
    "#;
    let families = gguf_models::with_diffusion(text).unwrap();
    let (wan, flux) = (families.diffusion("wan").unwrap(), families.diffusion("flux").unwrap());
    let row = families.diffusion("wan_next").unwrap();
    assert_eq!(
        (&row.unquantized, &row.tensors, &row.modules),
        (&wan.unquantized, &wan.tensors, &flux.modules)
    );
    let names =
        ["blocks.0.self_attn.norm_q.weight", "text_embedding.2.weight", "head.modulation", "next.weight"];
    let found = families.detect_diffusion(|name| names.contains(&name).then_some(1)).unwrap();
    assert_eq!(found.row, row);
    assert!(FAMILIES.diffusion("wan_next").is_none());
}

#[test]
fn errors_of_family_files_name_model_and_key() {
    let of = |text: &str| gguf_models::with_diffusion(text).unwrap_err().to_string();
    let row = "[[model]]\narchitecture = \"x\"\ndetect = [[\"a\"]]\n";
    for (text, expected) in [
        ("model", "TOML parse error at line 1"),
        ("a = 1", "no table `[[model]]`"),
        (&format!("a = 1\n{row}"), "unknown key `a`; facts of a model are below `[[model]]`"),
        ("[[model]]\ndetect = [[\"a\"]]", "model 1: missing key `architecture`"),
        ("[[model]]\narchitecture = \"x\"", "model 1: missing names in `detect` or `classes`"),
        (&format!("{row}detect2 = 1"), "model 1: unknown field `detect2`"),
        (&format!("{row}rank = 3"), "model 1: invalid type: integer `3`, expected a map"),
        (&format!("{row}like = \"none\""), "model 1: `like = none`: no other model has this architecture"),
        (&format!("{row}like = \"x\""), "model 1: `like = x`: no other model has this architecture"),
        (
            &format!("{row}like = \"y\"\n{}like = \"x\"", row.replace("\"x\"", "\"y\"")),
            "model 1: `like = y`: the models refer to one another",
        ),
        (
            &format!("{row}modules = [[\"a.{{}}\", \"b\"]]"),
            "model 1: `a.{}` and `b` have different placeholders",
        ),
        (&format!("{row}modules = [[\"a\", \"b\", \"half\"]]"), "model 1: unknown rows `half`"),
    ] {
        let error = of(text);
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn unknown_names_have_no_row() {
    assert_eq!(FAMILIES.detect_diffusion(|_| None), None);
    assert_eq!(FAMILIES.detect_diffusion(|name| (name == "blocks.0.mlp.layer1.weight").then_some(64)), None);
}

#[test]
fn qwen_image_with_a_name_that_flux_refuses_is_no_flux() {
    let row = FAMILIES.diffusion("qwen_image").unwrap();
    let mut tensors = checkpoint(row, &row.detect[0]);
    tensors.insert("transformer_blocks.0.attn.norm_added_k.weight", 128);
    let found = FAMILIES.detect_diffusion(|name| tensors.get(name).copied()).unwrap();
    assert_eq!((found.row.name.as_str(), found.refused), ("qwen_image", None));
}
