//! Compares a file with the table.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gguf_container::{Array, Metadata, Value};
use gguf_types::Shape;

use super::{
    DUPLICATE, OPTIONAL, RESHAPE, SKIP,
    expression::{Expr, Facts, Layers},
    refusal::Refusal,
    table::{self, Group, Keys, Lists, Loop, Row, Section, common, section},
    vocabulary,
};
use crate::registry::Families;

/// Layers beyond which nothing is compared; llama.cpp has 512 at most.
const MAX_LAYERS: i64 = 1024;

/// Rounds of all loops together after which nothing more is compared. A file with 512 layers takes about 20 000; nested loops
/// over counts that a file states could take any number.
const MAX_ROUNDS: u32 = 1 << 17;

/// Reasons why llama.cpp does not load a file with these keys and tensors; empty for a file that it loads. `None` for an
/// architecture that llama.cpp does not know.
pub fn refusals<'a>(
    families: &Families,
    metadata: &'a Metadata,
    tensors: impl IntoIterator<Item = (&'a str, Shape)>,
) -> Option<Vec<Refusal>> {
    let architecture = metadata.get("general.architecture").and_then(Value::as_str)?;
    let (own, common) = (section(families, architecture)?, common()?);
    let tensors: HashMap<&str, Shape> = tensors.into_iter().collect();
    let fields =
        common.fields.iter().chain(&own.fields).map(|(name, formula)| (*name, formula.clone())).collect();
    let facts = Facts::new(metadata, architecture, &tensors, fields);
    let mut rounds = MAX_ROUNDS;
    let mut found = keys(&facts, &common, &own, &mut rounds);
    // Sizes are made of keys: a wrong key would make every shape wrong with it.
    if found.is_empty() {
        let mut created = Created::default();
        own.groups.iter().for_each(|group| created.group(&facts, group, &mut rounds));
        created.scales(&facts);
        found = created.refusals(&facts);
    }
    if let Some(graph) = table::graph(families, architecture).filter(|_| found.is_empty()) {
        let mut created = Created::default();
        graph.groups.iter().for_each(|group| created.group(&facts, group, &mut rounds));
        found = values(&facts, &graph.refusals, &mut rounds);
        let n_more = created.missing.len().saturating_sub(1);
        found.extend(created.missing.pop_first().map(|name| Refusal::MissingTensor { name, n_more }));
        found = found.into_iter().map(|problem| Refusal::Graph(Box::new(problem))).collect();
    }
    Some(found)
}

/// True if llama.cpp reads a file without this key as one in which it has this value. A list has the value if each element has.
pub fn is_default(families: &Families, metadata: &Metadata, key: &str, value: &Value) -> bool {
    let architecture = metadata.get("general.architecture").and_then(Value::as_str);
    let Some((architecture, common)) = architecture.zip(common()) else { return false };
    let Some(own) = section(families, architecture) else { return false };
    let tensors = HashMap::new();
    let fields =
        common.fields.iter().chain(&own.fields).map(|(name, formula)| (*name, formula.clone())).collect();
    let facts = Facts::new(metadata, architecture, &tensors, fields);
    let mut defaults = own.defaults.iter().chain(&common.defaults);
    let Some((_, default)) = defaults.find(|(name, _)| facts.key(name) == key) else { return false };
    match value.as_array() {
        None => facts.equals(default, Layers::default(), value, None),
        Some(list) => (0..list.len()).all(|index| {
            facts.equals(default, Layers { at: index as i64, ..Layers::default() }, value, Some(index))
        }),
    }
}

fn keys(facts: &Facts<'_>, common: &Section, own: &Section, rounds: &mut u32) -> Vec<Refusal> {
    let mut found = Vec::new();
    for keys in common.keys.iter().chain(&own.keys) {
        let is_read = keys.condition.as_ref().map_or(Some(true), |met| facts.is_true(met, Layers::default()));
        if is_read == Some(true) {
            found.extend(keys.names.iter().filter_map(|key| wrong_key(facts, facts.key(key), keys)));
        }
    }
    found.dedup();
    if !found.is_empty() {
        return found;
    }
    found.extend(values(facts, common.refusals.iter().chain(&own.refusals), rounds));
    found.extend(vocabulary::problems(facts.metadata));
    found.dedup();
    found
}

/// Values for which a condition is met.
fn values<'a>(
    facts: &Facts<'_>,
    refusals: impl IntoIterator<Item = &'a (Vec<Loop>, Expr<'static>)>,
    rounds: &mut u32,
) -> Vec<Refusal> {
    let mut found = Vec::new();
    for (loops, condition) in refusals {
        let mut is_met = false;
        each_layer(facts, loops, Layers::default(), rounds, &mut |layers| {
            is_met |= facts.is_true(condition, layers) == Some(true);
        });
        if is_met {
            found.push(Refusal::KeyValues { keys: stated(facts, condition) });
        }
    }
    found
}

/// The problem of a key that is read.
fn wrong_key(facts: &Facts<'_>, key: String, keys: &Keys) -> Option<Refusal> {
    let Some(value) = facts.metadata.get(&key) else {
        return keys.is_needed.then_some(Refusal::MissingKey { key });
    };
    let is_listed = |id| keys.kinds.split('/').any(|kind| gguf_container::type_name(id) == Some(kind));
    let of_list = |list: &Array| {
        // Integers are read as any of their kinds of the same width.
        let is_integer = matches!(keys.kinds, "u32" | "i32")
            && matches!(list, Array::U32(_) | Array::I32(_) | Array::Bool(_));
        is_integer || is_listed(list.item_type_id())
    };
    let is_right = match (value.as_array(), &keys.lists) {
        (None, Lists::Only) => !keys.is_needed,
        (None, Lists::Always) | (Some(_), Lists::Refused) => false,
        (None, _) => is_listed(value.type_id()),
        (Some(_), Lists::Ignored) => !keys.is_needed,
        (Some(list), Lists::Only | Lists::Always) => is_listed(list.item_type_id()),
        (Some(list), Lists::Length(_)) => of_list(list),
    };
    if !is_right {
        let names = keys.kinds.replace('/', " or ");
        let expected = match keys.lists {
            Lists::Only | Lists::Always => format!("a list of {names}"),
            _ => names,
        };
        return Some(Refusal::KeyType { key, expected, found: type_of(value) });
    }
    let (Some(list), Lists::Length(length)) = (value.as_array(), &keys.lists) else { return None };
    let expected = u64::try_from(facts.int(length, Layers::default())?).ok()?;
    let found = list.len() as u64;
    (found != expected).then_some(Refusal::KeyLength { key, expected, found })
}

/// The type of a value in words.
fn type_of(value: &Value) -> String {
    let name = |id| gguf_container::type_name(id).unwrap_or("an unknown type");
    match value.as_array() {
        Some(list) => format!("a list of {}", name(list.item_type_id())),
        None => name(value.type_id()).to_owned(),
    }
}

/// Keys that a condition depends on, with their values.
fn stated<'a>(facts: &Facts<'a>, condition: &Expr<'a>) -> Vec<String> {
    let (mut keys, mut fields, mut done) = (Vec::new(), Vec::new(), BTreeSet::new());
    condition.keys(&mut keys);
    condition.fields(&mut fields);
    while let Some(field) = fields.pop() {
        if let Some(formula) = facts.fields.get(field).filter(|_| done.insert(field)) {
            formula.keys(&mut keys);
            formula.fields(&mut fields);
        }
    }
    let names: BTreeSet<String> = keys.into_iter().map(|key| facts.key(key)).collect();
    let show = |name: String| {
        let value = facts.metadata.get(&name)?;
        Some(match value.as_array() {
            Some(list) => format!("`{name}` ({} elements)", list.len()),
            None => format!("`{name}` {value}"),
        })
    };
    names.into_iter().filter_map(show).collect()
}

/// Runs `visit` for all values of the loop variables; false if a bound is unknown or out of range, or no rounds are left.
fn each_layer<'a>(
    facts: &Facts<'a>,
    loops: &[Loop],
    layers: Layers,
    rounds: &mut u32,
    visit: &mut impl FnMut(Layers),
) -> bool {
    let Some((first, rest)) = loops.split_first() else {
        visit(layers);
        return true;
    };
    let (Some(from), Some(to)) = (facts.int(&first.from, layers), facts.int(&first.to, layers)) else {
        return false;
    };
    if from < 0 || to > MAX_LAYERS {
        return false;
    }
    let mut is_known = true;
    for value in from..to {
        let Some(left) = rounds.checked_sub(1) else { return false };
        *rounds = left;
        let mut layers = layers;
        layers.loops[first.variable] = value;
        is_known &= each_layer(facts, rest, layers, rounds, visit);
    }
    is_known
}

/// Tensors that the loader creates.
#[derive(Debug, Default)]
struct Created {
    /// Created, or skipped and counted.
    names: BTreeSet<String>,
    /// Counted and not loaded.
    skipped: BTreeSet<String>,
    /// Created or not: the table cannot tell.
    perhaps: BTreeSet<String>,
    missing: BTreeSet<String>,
    wrong: BTreeMap<String, Vec<u64>>,
    /// Groups whose layers are not known: nothing can be said of other tensors.
    is_incomplete: bool,
}

impl Created {
    fn group(&mut self, facts: &Facts<'_>, group: &Group, rounds: &mut u32) {
        let is_known = each_layer(facts, &group.loops, Layers::default(), rounds, &mut |layers| {
            let is_met =
                group.condition.as_ref().map_or(Some(true), |condition| facts.is_true(condition, layers));
            if is_met != Some(false) {
                group.tensors.iter().for_each(|row| self.row(facts, row, layers, is_met.is_some()));
            }
        });
        self.is_incomplete |= !is_known;
    }

    fn row(&mut self, facts: &Facts<'_>, row: &Row, layers: Layers, is_certain: bool) {
        let flags = facts.int(&row.flags, layers).filter(|_| is_certain);
        let sizes: Vec<Option<i64>> = row.shape.iter().map(|size| facts.int(size, layers)).collect();
        match row.name.as_str() {
            "qkv" | "gate_up_exps" => {
                let Some(layer) = row.numbers.first().and_then(|number| facts.int(number, layers)) else {
                    self.is_incomplete = true;
                    return;
                };
                match row.name.as_str() {
                    "qkv" => self.attention(facts, layer, &sizes, flags),
                    _ => self.experts(facts, layer, &sizes, flags),
                }
            }
            pattern => match facts.tensor_name(pattern, &row.numbers, layers) {
                Some(name) => drop(self.tensor(facts, name, &sizes, flags)),
                None => self.is_incomplete = true,
            },
        }
    }

    /// Source: `create_tensor_qkv`.
    fn attention(&mut self, facts: &Facts<'_>, layer: i64, sizes: &[Option<i64>], flags: Option<i64>) {
        let &[n_embd, q, k, v] = sizes else { return };
        let all = q.zip(k).zip(v).and_then(|((q, k), v)| q.checked_add(k)?.checked_add(v));
        let may = flags.map(|flags| OPTIONAL | (flags & SKIP));
        let is_skipped = flags.is_some_and(|flags| flags & SKIP != 0);
        let weight = |part: &str| format!("blk.{layer}.attn_{part}.weight");
        let bias = |part: &str| format!("blk.{layer}.attn_{part}.bias");
        let fused = self.tensor(facts, weight("qkv"), &[n_embd, all], may);
        let fused_bias = (fused || is_skipped) && self.tensor(facts, bias("qkv"), &[all], may);
        for (part, size) in [("q", q), ("k", k), ("v", v)] {
            if !fused || is_skipped {
                let flags = if is_skipped { may } else { flags };
                self.tensor(facts, weight(part), &[n_embd, size], flags);
            }
            if !fused_bias || is_skipped {
                self.tensor(facts, bias(part), &[size], may);
            }
        }
    }

    /// Source: `create_tensor_gate_up_exps`.
    fn experts(&mut self, facts: &Facts<'_>, layer: i64, sizes: &[Option<i64>], flags: Option<i64>) {
        let &[n_embd, n_ff, n_expert] = sizes else { return };
        let may = flags.map(|flags| OPTIONAL | (flags & SKIP));
        let is_skipped = flags.is_some_and(|flags| flags & SKIP != 0);
        let both = n_ff.and_then(|n_ff| n_ff.checked_mul(2));
        let name = |part: &str| format!("blk.{layer}.ffn_{part}_exps.weight");
        let fused = self.tensor(facts, name("gate_up"), &[n_embd, both, n_expert], may);
        if !fused || is_skipped {
            let flags = if is_skipped { may } else { flags };
            self.tensor(facts, name("gate"), &[n_embd, n_ff, n_expert], flags);
            self.tensor(facts, name("up"), &[n_embd, n_ff, n_expert], flags);
        }
    }

    /// One tensor; true if the file has it.
    fn tensor(&mut self, facts: &Facts<'_>, name: String, sizes: &[Option<i64>], flags: Option<i64>) -> bool {
        let Some(found) = facts.tensors.get(name.as_str()) else {
            if flags.is_some_and(|flags| flags & OPTIONAL == 0) {
                self.missing.insert(name);
            }
            return false;
        };
        // Sizes are made of 32-bit numbers: a negative one is a large one there.
        let expected = sizes.iter().map(|size| size.map(|size| u64::try_from(size).unwrap_or(u64::MAX)));
        let expected: Option<Vec<u64>> = expected.collect();
        if let Some(expected) = expected.filter(|_| flags.is_some()) {
            let is_right = if flags.is_some_and(|flags| flags & RESHAPE != 0) {
                expected.iter().try_fold(1u64, |product, size| product.checked_mul(*size))
                    == Some(found.n_elems())
            } else {
                (0..gguf_types::MAX_DIMS).all(|dim| found.dim(dim) == expected.get(dim).copied().unwrap_or(1))
            };
            if !is_right {
                self.wrong.insert(name.clone(), expected);
            }
        }
        if flags.is_some_and(|flags| flags & SKIP != 0) {
            self.skipped.insert(name.clone());
        }
        match flags {
            Some(flags) if flags & DUPLICATE == 0 => self.names.insert(name),
            _ => self.perhaps.insert(name),
        };
        true
    }

    fn refusals(&self, facts: &Facts<'_>) -> Vec<Refusal> {
        let mut found = Vec::new();
        for names in by_layer(self.missing.iter()) {
            let [name, more @ ..] = names.as_slice() else { continue };
            found.push(Refusal::MissingTensor { name: (*name).clone(), n_more: more.len() });
        }
        for names in by_layer(self.wrong.keys()) {
            let [name, more @ ..] = names.as_slice() else { continue };
            let (Some(expected), Some(shape)) = (self.wrong.get(*name), facts.tensors.get(name.as_str()))
            else {
                continue;
            };
            let (name, expected) = ((*name).clone(), expected.clone());
            found.push(Refusal::TensorShape { name, expected, found: *shape, n_more: more.len() });
        }
        if !self.is_incomplete {
            let extra: BTreeSet<String> = facts
                .tensors
                .keys()
                .filter(|name| !self.names.contains(**name) && !self.perhaps.contains(**name))
                .map(|name| (*name).to_owned())
                .collect();
            for names in by_layer(extra.iter()) {
                let [name, more @ ..] = names.as_slice() else { continue };
                found.push(Refusal::ExtraTensor { name: (*name).clone(), n_more: more.len() });
            }
        }
        found
    }

    /// Scales of weights, which any architecture may have.
    fn scales(&mut self, facts: &Facts<'_>) {
        let is_scale = |name: &&str| {
            let matrix = name.strip_suffix(".scale").or_else(|| name.strip_suffix(".input_scale"));
            matrix.is_some_and(|matrix| {
                let weight = format!("{matrix}.weight");
                let is_loaded = facts.tensors.contains_key(weight.as_str())
                    && self.names.contains(&weight)
                    && !self.skipped.contains(&weight);
                is_loaded && gguf_container::may_have_scale(matrix)
            })
        };
        let scales: Vec<&str> = facts.tensors.keys().copied().filter(is_scale).collect();
        for name in scales {
            let n_expert = || facts.int(&Expr::Field("n_expert", None), Layers::default());
            let size = if name.contains("_exps.") { n_expert() } else { Some(1) };
            self.tensor(facts, name.to_owned(), &[size], Some(OPTIONAL));
        }
    }
}

/// Groups of names that differ only in their layer, in the order of the layers.
fn by_layer<'n>(names: impl Iterator<Item = &'n String>) -> Vec<Vec<&'n String>> {
    let mut groups: BTreeMap<(&str, &str), Vec<(u64, &String)>> = BTreeMap::new();
    for name in names {
        let numbered = name.split_once("blk.").and_then(|(before, rest)| {
            let (layer, part) = rest.split_once('.')?;
            Some(((before, part), layer.parse().ok()?))
        });
        let (key, layer) = numbered.unwrap_or(((name.as_str(), ""), 0));
        groups.entry(key).or_default().push((layer, name));
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    for group in &mut groups {
        group.sort_unstable();
    }
    groups.into_iter().map(|group| group.into_iter().map(|(_, name)| name).collect()).collect()
}
