//! Detection of diffusion models: the row of a checkpoint, and the order of the rows.

use std::collections::BTreeMap;

use gguf_layout::Diffusion;
use gguf_models::FAMILIES;

/// A checkpoint with the names of one alternative of a row, and the extents of the row.
fn checkpoint(row: &'static Diffusion, names: &[&'static str]) -> BTreeMap<&'static str, u64> {
    let mut tensors: BTreeMap<_, _> = names.iter().map(|name| (*name, 64)).collect();
    tensors.extend(row.extents.iter().copied());
    tensors
}

#[test]
fn every_alternative_leads_to_its_row() {
    assert_eq!(FAMILIES.diffusion.len(), 18);
    for row in FAMILIES.diffusion {
        for names in row.detect {
            let tensors = checkpoint(row, names);
            let found = FAMILIES.detect_diffusion(|name| tensors.get(name).copied());
            let found = found.unwrap_or_else(|| panic!("{}: {names:?}", row.name));
            assert_eq!(found.row, row, "{names:?}");
            let refused = row.refused.iter().copied().find(|name| tensors.contains_key(name));
            assert_eq!(found.refused, refused, "{names:?}");
        }
    }
}

#[test]
fn orders_of_detection_are_distinct() {
    let mut orders: Vec<u16> = FAMILIES.diffusion.iter().map(|row| row.order).collect();
    orders.sort_unstable();
    orders.dedup();
    assert_eq!(orders.len(), FAMILIES.diffusion.len());
}

#[test]
fn names_of_the_community_loader_have_rows() {
    // `IMG_ARCH_LIST` in loader.py of city96/ComfyUI-GGUF@795e451.
    let known = [
        "flux",
        "sd1",
        "sdxl",
        "sd3",
        "aura",
        "hidream",
        "cosmos",
        "ltxv",
        "hyvid",
        "wan",
        "lumina2",
        "qwen_image",
    ];
    for row in FAMILIES.diffusion {
        assert_eq!(row.loads, known.contains(&row.name), "{}", row.name);
    }
    assert!(known.iter().all(|name| FAMILIES.diffusion(name).is_some()));
    assert!(FAMILIES.diffusion("llama").is_none());
}

#[test]
fn unknown_names_have_no_row() {
    assert_eq!(FAMILIES.detect_diffusion(|_| None), None);
    assert_eq!(FAMILIES.detect_diffusion(|name| (name == "blocks.0.mlp.layer1.weight").then_some(64)), None);
}

#[test]
fn qwen_image_with_a_name_that_flux_refuses_is_no_flux() {
    let row = FAMILIES.diffusion("qwen_image").unwrap();
    let mut tensors = checkpoint(row, row.detect[0]);
    tensors.insert("transformer_blocks.0.attn.norm_added_k.weight", 128);
    let found = FAMILIES.detect_diffusion(|name| tensors.get(name).copied()).unwrap();
    assert_eq!((found.row.name, found.refused), ("qwen_image", None));
}
