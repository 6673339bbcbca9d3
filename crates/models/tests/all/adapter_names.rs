//! Names of modules in adapters, against the conversions of diffusers (`golden/diffusion-adapters/names.tsv`).

use std::collections::BTreeMap;

use gguf_layout::{RowRange, adapter_names};
use gguf_models::FAMILIES;

/// Parameters that are not modules.
const LEFT_OUT: &[&str] = &["pos_embed.pos_embed"];

#[test]
fn modules_of_diffusers_are_the_rows_that_its_conversion_takes() {
    let golden = include_str!("../../../../golden/diffusion-adapters/names.tsv");
    // Ranges by architecture, tensor, its sizes, and module.
    let mut expected: BTreeMap<(&str, &str, [u64; 2], &str), Vec<RowRange>> = BTreeMap::new();
    for line in golden.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let &[family, tensor, n_rows, n_columns, module, begin, end, first] = &columns[..] else {
            panic!("{line}")
        };
        let number = |text: &str| text.parse::<u64>().unwrap();
        let sizes = [number(n_rows), number(n_columns)];
        let range = RowRange { rows: number(begin)..number(end), first: number(first) };
        expected.entry((family, tensor, sizes, module)).or_default().push(range);
    }
    let mut n_compared = BTreeMap::new();
    for ((family, tensor, [n_rows, n_columns], module), mut ranges) in expected {
        let row = FAMILIES.diffusion(family).unwrap();
        let plain = |name: &'static str| name.strip_suffix(".weight").unwrap_or(name);
        let (own, wanted) = (plain(tensor), plain(module));
        if LEFT_OUT.iter().any(|end| module.ends_with(end)) {
            continue;
        }
        let names = adapter_names(&row.stages(), own);
        let rows = names.iter().find(|(name, _)| name == wanted).map(|(_, rows)| *rows);
        // Modules of one name need no rule.
        let rows = rows.or((own == wanted).then_some(gguf_layout::AdapterRows::All));
        let rows = rows.unwrap_or_else(|| panic!("{family}: {module} is not a name of {tensor}: {names:?}"));
        ranges.sort_by_key(|range| range.rows.start);
        assert_eq!(rows.ranges(n_rows, n_columns), Some(ranges), "{family}: {module}");
        *n_compared.entry(family).or_insert(0) += 1;
    }
    let families: Vec<_> = n_compared.keys().copied().collect();
    assert_eq!(families, ["flux", "hyvid", "sd1", "sd3", "sdxl", "wan"]);
    assert!(n_compared.values().all(|n| *n > 20), "{n_compared:?}");
}

/// HunyuanVideo has an original layout and that of ComfyUI, whose names in diffusers are in two tables.
#[test]
fn both_layouts_of_hunyuan_video_have_the_same_names_in_diffusers() {
    let original = FAMILIES.diffusion("hyvid").unwrap();
    let detected = FAMILIES.detect_diffusion(|name| {
        let own =
            ["double_blocks.0.img_attn.proj.weight", "txt_in.individual_token_refiner.blocks.0.norm1.weight"];
        own.contains(&name).then_some(16)
    });
    let comfy = detected.unwrap().row;
    assert_eq!((comfy.name.as_str(), comfy.tensors.len()), ("hyvid", 0));
    let mut n_compared = 0;
    for rule in
        comfy.modules.iter().filter(|rule| original.modules.iter().any(|own| own.tensor == rule.module))
    {
        let [own, name] = [&rule.tensor, &rule.module].map(|name| name.replace("{}", "3"));
        let found = adapter_names(&comfy.stages(), &own);
        assert!(found.contains(&(name.clone(), gguf_layout::AdapterRows::All)), "{own}: {found:?}");
        for expected in adapter_names(&original.stages(), &name) {
            assert!(found.contains(&expected), "{own}: {expected:?} is missing in {found:?}");
            n_compared += 1;
        }
    }
    assert_eq!(n_compared, 21);
}
