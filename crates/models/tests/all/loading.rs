//! Files with one damaged key or tensor against the verdict of llama.cpp's loader (`golden/loading/damaged.tsv`, which
//! `scripts/golden/loading.py` describes).

use std::collections::{BTreeMap, BTreeSet};

use gguf_container::{Array, Metadata, Value};
use gguf_layout::loader::{Property, Refusal, positions, refusals};
use gguf_types::Shape;
use serde_json::Value as Json;

use crate::options::resolve;

/// Keys and tensors of a file.
#[derive(Clone)]
struct Parts {
    metadata: Metadata,
    tensors: BTreeMap<String, Shape>,
}

impl Parts {
    fn of(name: &str) -> Parts {
        let layout = resolve(name, None).unwrap();
        let tensors = layout.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.shape)).collect();
        Parts { metadata: layout.metadata, tensors }
    }

    fn damage(&mut self, damage: &str) {
        let mut words = damage.splitn(3, ' ');
        let (word, name, rest) =
            (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or_default());
        let shape = |text: &str| {
            Shape::new(&text.split(',').map(|size| size.parse().unwrap()).collect::<Vec<u64>>()).unwrap()
        };
        match word {
            "unset" => drop(self.metadata.remove(name)),
            "set" => {
                let (kind, value) = rest.split_once(' ').unwrap();
                self.metadata.set(name, value_of(kind, &serde_json::from_str(value).unwrap()));
            }
            "cut" => {
                let Some(Value::Array(list)) = self.metadata.get(name) else { panic!("{damage}") };
                let list = first(list, rest.parse().unwrap());
                self.metadata.set(name, Value::Array(list));
            }
            "drop" => drop(self.tensors.remove(name)),
            "rename" => {
                let shape = self.tensors.remove(name).unwrap();
                self.tensors.insert(rest.to_owned(), shape);
            }
            "shape" => drop(self.tensors.insert(name.to_owned(), shape(rest))),
            "add" => {
                let (sizes, _) = rest.split_once(' ').unwrap();
                self.tensors.insert(name.to_owned(), shape(sizes));
            }
            "type" => {}
            _ => panic!("{damage}"),
        }
    }
}

/// The first items of a list.
fn first(list: &Array, n: usize) -> Array {
    match list {
        Array::String(items) => Array::String(items.iter().take(n).collect()),
        Array::F32(items) => Array::F32(items[..n].to_vec()),
        Array::I32(items) => Array::I32(items[..n].to_vec()),
        Array::U32(items) => Array::U32(items[..n].to_vec()),
        Array::U8(items) => Array::U8(items[..n].to_vec()),
        other => panic!("{other:?}"),
    }
}

/// A value of a type such as `u32` or `[f32]`.
fn value_of(kind: &str, json: &Json) -> Value {
    let int = |json: &Json| json.as_i64().unwrap();
    let float = |json: &Json| json.as_f64().unwrap() as f32;
    let items = || json.as_array().unwrap().iter();
    match kind {
        "u16" => Value::U16(int(json).try_into().unwrap()),
        "u32" => Value::U32(int(json).try_into().unwrap()),
        "u64" => Value::U64(int(json).try_into().unwrap()),
        "i32" => Value::I32(int(json).try_into().unwrap()),
        "i64" => Value::I64(int(json)),
        "f32" => Value::F32(float(json)),
        "bool" => Value::Bool(json.as_bool().unwrap()),
        "str" => json.as_str().unwrap().into(),
        "[u32]" => items().map(|item| u32::try_from(int(item)).unwrap()).collect::<Vec<_>>().into(),
        "[i32]" => items().map(|item| i32::try_from(int(item)).unwrap()).collect::<Vec<_>>().into(),
        "[u64]" => items().map(|item| u64::try_from(int(item)).unwrap()).collect::<Vec<_>>().into(),
        "[f32]" => items().map(float).collect::<Vec<_>>().into(),
        "[bool]" => items().map(|item| item.as_bool().unwrap()).collect::<Vec<_>>().into(),
        "[str]" => items().map(|item| item.as_str().unwrap()).collect::<Vec<_>>().into(),
        _ => panic!("{kind}"),
    }
}

#[test]
fn damaged_files_get_verdict_of_llama_cpp() {
    let table = std::fs::read_to_string(gguf_testkit::golden_path("loading/damaged.tsv")).unwrap();
    let (mut parts, mut wrong, mut n_loads) = (BTreeMap::new(), Vec::new(), 0);
    for line in table.lines() {
        let [name, damage, verdict] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let good = parts.entry(name).or_insert_with(|| Parts::of(name));
        let mut damaged = good.clone();
        damaged.damage(damage);
        let tensors = damaged.tensors.iter().map(|(name, shape)| (name.as_str(), *shape));
        let refusals = refusals(&gguf_models::FAMILIES, &damaged.metadata, tensors);
        // The verdicts are those of the loader, before a graph is built.
        let of_loader = |refusal: &Refusal| !matches!(refusal, Refusal::Graph(_));
        let loads = refusals.as_ref().is_some_and(|found| !found.iter().any(of_loader));
        n_loads += usize::from(loads);
        if loads != (verdict == "loads") {
            wrong.push(format!("{line}\n    {refusals:?}"));
        }
    }
    assert!(n_loads > 0 && n_loads < table.lines().count());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn periods_of_keys_and_of_graphs_are_read() {
    let of = |architecture: &str, property| {
        let mut metadata = Metadata::new();
        metadata.set("general.architecture", architecture);
        metadata.set(format!("{architecture}.block_count"), 6u32);
        let found = positions(&gguf_models::FAMILIES, &metadata, 6);
        found.into_iter().find(|(found, _)| *found == property).map(|(_, values)| values)
    };
    let list = |values: [i64; 6]| Some(values.map(Some).to_vec());
    assert_eq!(of("gemma2", Property::SlidingWindow), list([1, 0, 1, 0, 1, 0]));
    assert_eq!(of("smollm3", Property::Rotary), list([1, 1, 1, 0, 1, 1]));
    assert_eq!(of("qwen3next", Property::Recurrent), list([1, 1, 1, 0, 1, 1]));
    assert_eq!(of("llama", Property::Rotary), Some(vec![None; 6]));
    assert_eq!(of("no-such-architecture", Property::Rotary), None);
    assert_eq!(
        Property::SlidingWindow.list_key(&gguf_models::FAMILIES, "gemma2"),
        Some("attention.sliding_window_pattern")
    );
    assert_eq!(
        Property::Recurrent.list_key(&gguf_models::FAMILIES, "qwen3next"),
        Some("attention.recurrent_layers")
    );
    assert_eq!(Property::Recurrent.list_key(&gguf_models::FAMILIES, "gemma2"), None);
    assert_eq!(Property::Rotary.list_key(&gguf_models::FAMILIES, "smollm3"), None);
}

#[test]
fn every_architecture_of_llama_cpp_has_a_section() {
    let heads = gguf_models::FAMILIES.loader.lines();
    let heads = heads.filter_map(|line| line.strip_prefix('[')?.strip_suffix(']'));
    let mut names: Vec<&str> = heads.flat_map(|names| names.split(' ')).collect();
    let of = |name: &str| {
        let metadata = Metadata::from([("general.architecture".to_owned(), Value::from(name))]);
        refusals(&gguf_models::FAMILIES, &metadata, [])
    };
    // A section that does not parse is not found.
    assert!(names.iter().all(|name| of(name).is_some_and(|refusals| !refusals.is_empty())));
    names.sort_unstable();
    let n_names = names.len();
    names.dedup();
    assert_eq!(names.len(), n_names, "sections of one name");
    let written: BTreeSet<&str> = gguf_models::ARCHES.iter().map(gguf_layout::Arch::written).collect();
    let unknown: Vec<&str> = written.into_iter().filter(|name| of(name).is_none()).collect();
    assert_eq!(unknown, UNKNOWN);
}

/// Architectures that llama.cpp does not load; `gptj` is a name without a loader there.
const UNKNOWN: [&str; 4] = ["gptj", "persimmon", "rwkv", "whisper"];
