//! Types and bytes of the tensors of diffusion models, compared with libgguf's for every file type that it
//! has.
//!
//! The input is the file that ComfyUI-GGUF's converter writes for the checkpoint: three keys, original shapes
//! of reshaped tensors, and float types by its rules.

use std::{collections::HashSet, fmt::Write as _, fs, path::Path};

use gguf_container::{Array, Endian, File, Metadata, Plan, Value};
use gguf_conversion::{
    Conversion, DiffusionInput, RunOptions,
    recipes::{ModelFacts, Overrides, RECIPES, Recipe, TensorFacts, assign},
};
use gguf_models::FAMILIES;
use gguf_types::{DType, Shape};
use serde_json::Value as Json;

struct Golden {
    name: String,
    json: Json,
}

impl Golden {
    fn all() -> Vec<Golden> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/diffusion-types");
        let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let golden = |path: &std::path::PathBuf| Golden {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            json: gguf_testkit::read_json(path),
        };
        paths.iter().map(golden).collect()
    }

    fn tensors(&self) -> &[Json] {
        self.json["tensors"].as_array().unwrap()
    }

    fn metadata(&self) -> Metadata {
        let mut metadata = Metadata::new();
        metadata.set("general.architecture", self.json["arch"].as_str().unwrap());
        metadata.set("general.quantization_version", 2u32);
        metadata.set("general.file_type", 32u32);
        for tensor in self.tensors() {
            let shape: Vec<i32> = numbers(&tensor["shape"]).into_iter().map(|dim| dim as i32).collect();
            if numbers(&tensor["shape"]).into_iter().rev().ne(numbers(&tensor["dims"])) {
                let key = format!("comfy.gguf.orig_shape.{}", tensor["name"].as_str().unwrap());
                metadata.set(key, Value::Array(Array::I32(shape)));
            }
        }
        metadata
    }

    fn write(&self, path: &Path) {
        let shape = |tensor: &Json| Shape::new(&numbers(&tensor["dims"])).unwrap();
        let stored = |tensor: &Json| DType::from_name(tensor["stored"].as_str().unwrap()).unwrap();
        let header = |tensor: &Json| (name_of(tensor), shape(tensor), stored(tensor));
        let tensors = self.tensors().iter().map(header).collect();
        let plan = Plan::new(&self.metadata(), tensors, Endian::Little, 32).unwrap();
        let data: Vec<Vec<u8>> =
            self.tensors().iter().map(|t| data(t, stored(t), shape(t).n_elems())).collect();
        fs::write(path, plan.to_bytes(&data).unwrap()).unwrap();
    }
}

fn name_of(tensor: &Json) -> String {
    tensor["name"].as_str().unwrap().to_owned()
}

fn numbers(json: &Json) -> Vec<u64> {
    json.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

/// The values of a tensor, rounded to the type of the checkpoint and then to that of the file.
fn data(tensor: &Json, stored: DType, n_elems: u64) -> Vec<u8> {
    let seed = tensor["seed"].as_u64().unwrap();
    let values = (0..n_elems).map(|i| gguf_testkit::normal(seed, i));
    let widened = |bytes: [u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16);
    match (tensor["dtype"].as_str().unwrap(), stored) {
        ("BF16", DType::BF16) => values.flat_map(gguf_testkit::bf16).collect(),
        ("BF16", DType::F32) => {
            values.flat_map(|value| widened(gguf_testkit::bf16(value)).to_le_bytes()).collect()
        }
        ("F16" | "F32", DType::F16) => values.flat_map(gguf_testkit::f16).collect(),
        ("F32", DType::F32) => values.flat_map(f32::to_le_bytes).collect(),
        other => panic!("{other:?}"),
    }
}

fn quantize(from: &Path, recipe: &str, to: &Path) -> File {
    let conversion = Conversion::open_gguf(FAMILIES, from).unwrap().recipe(recipe).unwrap();
    conversion.plan().unwrap().check().unwrap().write(to, &RunOptions::default()).unwrap();
    File::open(to).unwrap()
}

#[test]
fn types_and_bytes_match_libgguf() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from.gguf"), place.path().join("to.gguf"));
    let (mut wrong, mut n_files) = (String::new(), 0);
    for golden in Golden::all() {
        golden.write(&from);
        for (recipe, expected) in golden.json["files"].as_object().unwrap() {
            let file = quantize(&from, recipe, &to);
            n_files += 1;
            let mut metadata = golden.metadata();
            metadata.set("general.file_type", expected["file_type"].as_u64().unwrap() as u32);
            assert_eq!(file.metadata(), &metadata, "{} {recipe}", golden.name);
            assert_eq!(file.tensors().len(), golden.tensors().len());
            let types = expected["types"].as_array().unwrap();
            for ((found, tensor), dtype) in file.tensors().iter().zip(golden.tensors()).zip(types) {
                let dtype = dtype.as_str().unwrap();
                let subject = format!("{} {recipe} {}", golden.name, found.name);
                assert_eq!(
                    (&found.name, found.shape.dims()),
                    (&name_of(tensor), &numbers(&tensor["dims"])[..])
                );
                let digest = gguf_testkit::sha256(file.data(found).unwrap());
                // A matrix of f32 is f16 in the file of ComfyUI-GGUF's converter, so its values differ from those of one pass.
                let is_rounded = tensor["dtype"] == "F32" && tensor["stored"] == "F16";
                if !found.dtype.name().eq_ignore_ascii_case(dtype) {
                    writeln!(wrong, "{subject}: {} instead of {dtype}", found.dtype).unwrap();
                } else if !is_rounded && !digest.starts_with(tensor["data"][dtype].as_str().unwrap()) {
                    writeln!(wrong, "{subject}: other bytes in {dtype}").unwrap();
                }
            }
            drop(file);
            fs::remove_file(&to).unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert_eq!(n_files, 11 * 15);
}

/// From the checkpoint in one pass, as libgguf does it: matrices of f32 too have its bytes.
#[test]
fn checkpoints_become_files_of_libgguf() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("model.safetensors"), place.path().join("to.gguf"));
    let mut wrong = String::new();
    for golden in Golden::all() {
        let tensor = |tensor: &Json| {
            let shape = numbers(&tensor["shape"]);
            let dtype = tensor["dtype"].as_str().unwrap().to_owned();
            let stored = DType::from_name(&dtype).unwrap();
            let bytes = data(tensor, stored, shape.iter().product());
            (name_of(tensor), dtype, shape, bytes)
        };
        let tensors: Vec<_> = golden.tensors().iter().map(tensor).collect();
        let views = tensors
            .iter()
            .map(|(name, dtype, shape, bytes)| (name.as_str(), dtype.as_str(), shape.clone(), bytes.clone()));
        fs::write(&from, gguf_testkit::safetensors(views)).unwrap();
        for (recipe, expected) in golden.json["files"].as_object().unwrap() {
            let input = DiffusionInput::open(FAMILIES, &crate::folder(&from)).unwrap();
            let conversion = Conversion::new(input).recipe(recipe).unwrap();
            conversion.plan().unwrap().check().unwrap().write(&to, &RunOptions::default()).unwrap();
            let file = File::open(&to).unwrap();
            let types = expected["types"].as_array().unwrap();
            assert_eq!(file.tensors().len(), types.len());
            for (tensor, dtype) in golden.tensors().iter().zip(types) {
                let (name, dtype) = (name_of(tensor), dtype.as_str().unwrap());
                let found = file.tensor(&name).unwrap();
                assert_eq!(found.shape.dims(), numbers(&tensor["dims"]), "{} {name}", golden.name);
                // Parameters that ComfyUI-GGUF does not decode are F32 (docs/reference/differences.md).
                let is_decoded = name.ends_with(".weight") && matches!(found.shape.n_dims(), 2 | 4);
                if dtype == "BF16" && found.dtype == DType::F32 && !is_decoded {
                    let (.., source) = tensors.iter().find(|(other, ..)| *other == name).unwrap();
                    let widened =
                        source.as_chunks::<2>().0.iter().flat_map(|[low, high]| [0, 0, *low, *high]);
                    assert!(widened.eq(file.data(found).unwrap().iter().copied()), "{} {name}", golden.name);
                    continue;
                }
                let digest = gguf_testkit::sha256(file.data(found).unwrap());
                if !found.dtype.name().eq_ignore_ascii_case(dtype)
                    || !digest.starts_with(tensor["data"][dtype].as_str().unwrap())
                {
                    let found = found.dtype;
                    writeln!(wrong, "{} {recipe} {name}: {found}, expected {dtype}", golden.name).unwrap();
                }
            }
            drop(file);
            fs::remove_file(&to).unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn copies_are_byte_identical() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from.gguf"), place.path().join("to.gguf"));
    for golden in Golden::all() {
        golden.write(&from);
        quantize(&from, "copy", &to);
        assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap(), "{}", golden.name);
        fs::remove_file(&to).unwrap();
    }
}

/// libgguf has no codebooks. All types keep the same tensors, and each mix uses its main type.
#[test]
fn every_recipe_keeps_sensitive_tensors() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from.gguf"), place.path().join("to.gguf"));
    for golden in Golden::all() {
        golden.write(&from);
        // Tensors that keep their type in all files of the golden.
        let files = golden.json["files"].as_object().unwrap();
        let kept: HashSet<usize> = (0..golden.tensors().len())
            .filter(|&i| files.values().all(|file| file["types"][i] == golden.tensors()[i]["stored"]))
            .collect();
        assert!(kept.len() > 5);
        for recipe in RECIPES.iter().filter(|recipe| recipe.alias_of.is_none() && !recipe.copy) {
            let conversion = Conversion::open_gguf(FAMILIES, &from).unwrap().recipe(recipe.name).unwrap();
            let plan = conversion.plan().unwrap();
            if plan.files()[0].choices.iter().any(|choice| choice.requires_imatrix) {
                assert!(recipe.default.needs_imatrix() || recipe.name == "IQ2_S", "{}", recipe.name);
                assert!(plan.check().is_err(), "{}", recipe.name);
                continue;
            }
            plan.check().unwrap().write(&to, &RunOptions::default()).unwrap();
            let file = File::open(&to).unwrap();
            for (i, tensor) in file.tensors().iter().enumerate() {
                let stored = golden.tensors()[i]["stored"].as_str().unwrap();
                let same = tensor.dtype.name().eq_ignore_ascii_case(stored);
                assert!(same || !kept.contains(&i), "{} {} {}", golden.name, recipe.name, tensor.name);
            }
            let has_own = file.tensors().iter().any(|tensor| tensor.dtype == recipe.default);
            assert!(has_own || recipe.name == "MXFP4_MOE", "{} {}", golden.name, recipe.name);
            fs::remove_file(&to).unwrap();
        }
    }
}

/// The types of a mix for a role, such as `q5_K (first 2), q4_K`.
fn types_of(recipe: &Recipe, name: fn(usize) -> String) -> String {
    let names: Vec<String> = (0..9).map(name).collect();
    let shape = Shape::new(&[256, 8]).unwrap();
    let facts: Vec<_> = names.iter().map(|name| TensorFacts { name, shape, dtype: DType::BF16 }).collect();
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", "wan");
    let model = ModelFacts::of_file(&FAMILIES, &metadata, &facts).unwrap();
    let assigned = assign(recipe, &model, &facts, &Overrides::default()).unwrap();
    let shown = |at: usize| {
        let mark = if assigned[at].requires_imatrix { "\\*" } else { "" };
        format!("{}{mark}", assigned[at].dtype.name().to_uppercase())
    };
    let same = assigned.iter().take_while(|choice| choice.dtype == assigned[0].dtype).count();
    match same {
        9 => shown(0),
        n => format!("{} (first {n}), {}", shown(0), shown(n)),
    }
}

#[test]
fn reference_page_states_the_rules() {
    let mut mixes =
        "| file type | values | fused QKV | down | other matrices |\n|---|---|---|---|---|\n".to_owned();
    for recipe in RECIPES.iter().filter(|recipe| recipe.alias_of.is_none() && recipe.default.is_quantized()) {
        let roles: [fn(usize) -> String; 4] = [
            |i| format!("blocks.{i}.self_attn.v.weight"),
            |i| format!("blocks.{i}.attn.qkv.weight"),
            |i| format!("blocks.{i}.ffn.2.weight"),
            |i| format!("blocks.{i}.ffn.0.weight"),
        ];
        let types = roles.map(|name| types_of(recipe, name)).join(" | ");
        writeln!(mixes, "| {} | {types} |", recipe.name).unwrap();
    }
    let code = |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ");
    let mut architectures =
        "| architecture | models | recognized by | stays F32 |\n|---|---|---|---|\n".to_owned();
    for row in FAMILIES.diffusion.iter() {
        let names: Vec<String> = row.detect.iter().map(|names| code(names)).collect();
        let sizes: Vec<String> =
            row.extents.iter().map(|(name, extent)| format!("{extent} rows of `{name}`")).collect();
        let by = match &names[..] {
            [] => format!("class {}", code(&row.classes)),
            names => {
                [names.join(", or "), sizes.join(", ")].join(if sizes.is_empty() { "" } else { ", and " })
            }
        };
        let kept_f32 = code(&row.kept_f32);
        writeln!(architectures, "| `{}` | {} | {by} | {kept_f32} |", row.name, row.models).unwrap();
    }
    let mut kept =
        "| architecture | models | parts of names that keep their type |\n|---|---|---|\n".to_owned();
    let mut rows: Vec<_> = FAMILIES.diffusion.iter().collect();
    rows.sort_by_key(|row| row.name.as_str());
    for row in rows {
        let whole = row.unquantized_names.iter().map(|name| format!("`{name}` (whole name)"));
        let blocks = row.only_blocks.then(|| "everything outside of numbered blocks".to_owned());
        let parts: Vec<String> = blocks
            .into_iter()
            .chain(row.unquantized.iter().map(|part| format!("`{part}`")))
            .chain(whole)
            .collect();
        writeln!(kept, "| `{}` | {} | {} |", row.name, row.models, parts.join(" ")).unwrap();
    }
    check_tables("diffusion.md", &[("architectures", architectures)]);
    check_tables("diffusion-types.md", &[("kept", kept), ("mixes", mixes)]);
}

/// Compares tables of a page in docs/reference, which stand between comments with their names.
fn check_tables(page: &str, tables: &[(&str, String)]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page);
    let mut new = fs::read_to_string(&path).unwrap();
    for (name, table) in tables {
        let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
        let (before, rest) = new.split_once(&start).unwrap();
        let (_, after) = rest.split_once(&end).unwrap();
        new = format!("{before}{start}{table}{end}{after}");
    }
    gguf_testkit::check_written(&path, &new);
}
