//! Our choice of dtypes compared with the reference's, for `golden/recipes/`.
//!
//! `snapshots/` contains the reference's own expectations for twelve real models and 33 file types;
//! `dry-run/` the output of its tool for small models that cover other rules. Both are folded alike, see
//! `scripts/golden/recipes.py`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use gguf_container::{Array, Metadata, Value};
use gguf_conversion::recipes::{
    Assignment, ModelFacts, Overrides, RECIPES, Reason, Recipe, RecipeError, TensorFacts, TensorType, assign,
    is_70b, reference_order,
};
use gguf_types::{DType, Shape};

/// One model of the golden folder.
struct Golden {
    model: ModelFacts,
    tensors: Vec<(String, Shape, DType)>,
    sections: Vec<Section>,
}

/// Expected types for one recipe with these options.
struct Section {
    recipe: &'static Recipe,
    options: Vec<String>,
    default: DType,
    others: BTreeMap<String, DType>,
}

fn names(layers: &str, name: &str) -> Vec<String> {
    if layers == "-" {
        return vec![name.to_owned()];
    }
    let number = |text: &str| text.parse::<u32>().unwrap();
    let runs = layers.split(',').map(|run| match run.split_once('-') {
        Some((first, last)) => number(first)..=number(last),
        None => number(run)..=number(run),
    });
    runs.flatten().map(|layer| format!("blk.{layer}.{name}")).collect()
}

fn value(text: &str) -> Value {
    if let Ok(number) = text.parse::<u32>() {
        return Value::U32(number);
    }
    let numbers: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    match (numbers, text.parse::<f32>()) {
        (Ok(numbers), _) => Value::Array(Array::U32(numbers)),
        (_, Ok(float)) => Value::F32(float),
        _ => text.into(),
    }
}

fn parse(path: &Path) -> Golden {
    let mut golden = Golden { model: ModelFacts::default(), tensors: vec![], sections: vec![] };
    let mut metadata = Metadata::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let count = || words[1].parse::<u32>().unwrap();
        match words[0] {
            "key" => metadata.set(words[1], value(words[2])),
            "architecture" => {
                golden.model.architecture = words[1].to_owned();
                golden.model.quantization = gguf_models::FAMILIES.quantization(words[1]);
            }
            "n_layer" => golden.model.n_layer = count(),
            "n_expert" => golden.model.n_expert = count(),
            "n_head" => golden.model.n_head = count(),
            "n_head_kv" => golden.model.n_head_kv = count(),
            "tensor" => {
                let dims: Vec<u64> = words[3].split('x').map(|dim| dim.parse().unwrap()).collect();
                let dtype = words.get(4).map_or(DType::F32, |name| DType::from_name(name).unwrap());
                for name in names(words[1], words[2]) {
                    golden.tensors.push((name, Shape::new(&dims).unwrap(), dtype));
                }
            }
            head if head.starts_with('[') => golden.sections.push(Section {
                recipe: Recipe::from_name(head.trim_matches(['[', ']'])).unwrap(),
                options: words[2..].iter().map(|word| (*word).to_owned()).collect(),
                default: DType::from_name(words[1]).unwrap(),
                others: BTreeMap::new(),
            }),
            layers => {
                let dtype = DType::from_name(words[2]).unwrap();
                let section = golden.sections.last_mut().unwrap();
                section.others.extend(names(layers, words[1]).into_iter().map(|name| (name, dtype)));
            }
        }
    }
    let model = &mut golden.model;
    if !metadata.is_empty() {
        *model = ModelFacts::from_metadata(&gguf_models::FAMILIES, &metadata).unwrap();
        return golden;
    }
    model.is_70b = is_70b(model.quantization, model.n_layer, model.n_expert, model.n_head, model.n_head_kv);
    golden
}

fn overrides(options: &[String]) -> Overrides {
    let mut overrides = Overrides::default();
    for option in options {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let dtype = || Some(DType::from_name(value).unwrap());
        match name {
            "refused" | "needs-imatrix" => {}
            "imatrix" => overrides.has_imatrix = true,
            "pure" => overrides.pure = true,
            "leave-output-tensor" => overrides.leave_output = true,
            "output-tensor-type" => overrides.output_type = dtype(),
            "token-embedding-type" => overrides.token_embedding_type = dtype(),
            "tensor-type" => overrides.tensor_types.push(TensorType::parse(value).unwrap()),
            _ => panic!("{option}"),
        }
    }
    overrides
}

/// Tensors of the golden in the reference's order with our assignments.
fn assigned<'a>(golden: &'a Golden, section: &Section) -> Result<Vec<(&'a str, Assignment)>, RecipeError> {
    let names: Vec<&str> = golden.tensors.iter().map(|tensor| tensor.0.as_str()).collect();
    let facts: Vec<TensorFacts<'_>> = reference_order(&names)
        .into_iter()
        .map(|i| TensorFacts { name: names[i], shape: golden.tensors[i].1, dtype: golden.tensors[i].2 })
        .collect();
    let assignments = assign(section.recipe, &golden.model, &facts, &overrides(&section.options))?;
    Ok(facts.iter().map(|facts| facts.name).zip(assignments).collect())
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/recipes").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Differences in one section. `all` includes tensors that no recipe changes.
fn differences(golden: &Golden, section: &Section, all: bool) -> Vec<String> {
    let has = |option: &str| section.options.iter().any(|other| other == option);
    let assigned = match assigned(golden, section) {
        Ok(_) if has("refused") => return vec!["not refused".to_owned()],
        Err(_) if has("refused") => return vec![],
        Err(error) => return vec![error.to_string()],
        Ok(assigned) => assigned,
    };
    let mut wrong = Vec::new();
    if section.recipe.default != section.default {
        wrong.push(format!("default is {}", section.recipe.default));
    }
    let needs_imatrix = assigned.iter().any(|(_, assignment)| assignment.requires_imatrix);
    if all && !has("imatrix") && needs_imatrix != has("needs-imatrix") {
        wrong.push(format!("needs an importance matrix: {needs_imatrix}"));
    }
    let mut expected = section.others.clone();
    for (name, assignment) in assigned {
        let want = expected.remove(name);
        let kept = matches!(assignment.reason, Reason::Kept(_));
        let want = if kept && !all { want } else { Some(want.unwrap_or(section.default)) };
        if let Some(want) = want.filter(|want| *want != assignment.dtype) {
            let Assignment { dtype, reason, .. } = assignment;
            wrong.push(format!("{name}: expected {want}, got {dtype} ({reason})"));
        }
    }
    wrong.extend(expected.keys().map(|name| format!("{name}: no such tensor")));
    wrong
}

/// Compares every section of every file; returns the number of sections.
fn compare(folder: &str, all: bool) -> usize {
    let (mut sections, mut wrong) = (0, Vec::new());
    for path in files(folder) {
        let golden = parse(&path);
        for section in &golden.sections {
            sections += 1;
            let at = format!(
                "{} {} {:?}",
                path.file_stem().unwrap().display(),
                section.recipe.name,
                section.options
            );
            wrong.extend(differences(&golden, section, all).into_iter().map(|what| format!("{at} {what}")));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
    sections
}

#[test]
fn recipes_match_reference_snapshots() {
    assert_eq!(compare("snapshots", false), 396);
}

#[test]
fn recipes_match_reference_dry_runs() {
    assert_eq!(compare("dry-run", true), 1524);
}

/// The table states the need without knowing a model; it must agree with the tool for a llama.
#[test]
fn recipes_state_need_for_importance_matrix() {
    let path = files("dry-run").into_iter().find(|path| path.ends_with("llama-grouped.txt")).unwrap();
    let sections = parse(&path).sections;
    let without = sections.iter().filter(|section| !section.options.iter().any(|option| option == "imatrix"));
    for section in without.clone() {
        let needed = section.options.iter().any(|option| option == "needs-imatrix");
        assert_eq!(section.recipe.needs_imatrix, needed, "{}", section.recipe.name);
    }
    let named = RECIPES.iter().filter(|recipe| recipe.alias_of.is_none());
    assert_eq!(without.count(), named.count());
}
