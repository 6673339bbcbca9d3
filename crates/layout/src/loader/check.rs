//! Compares a file with the table.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

use gguf_container::{Metadata, Value};
use gguf_types::Shape;

use super::{
    DUPLICATE, OPTIONAL, RESHAPE, SKIP,
    expression::{Expr, Facts, Layers},
    table::{Group, Loop, Row, Section, section},
};

/// Layers beyond which nothing is compared; llama.cpp has 512 at most.
const MAX_LAYERS: i64 = 1024;

/// Rounds of all loops together after which nothing more is compared. A file with 512 layers takes about 20 000; nested loops
/// over counts that a file states could take any number.
const MAX_ROUNDS: u32 = 1 << 17;

/// A reason why llama.cpp does not load a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A key that it needs.
    MissingKey {
        /// The key.
        key: String,
    },
    /// A key of a type that it does not read.
    KeyType {
        /// The key.
        key: String,
        /// Name of the type that is read.
        expected: String,
        /// Name of the type that was found.
        found: String,
    },
    /// A list of another length than the layers need.
    KeyLength {
        /// The key.
        key: String,
        /// Elements that are needed.
        expected: u64,
        /// Elements that were found.
        found: u64,
    },
    /// Values that it refuses.
    KeyValues {
        /// The keys with their values.
        keys: Vec<String>,
    },
    /// A tensor that it needs.
    MissingTensor {
        /// The name.
        name: String,
        /// Other layers that lack it too.
        n_more: usize,
    },
    /// A tensor of another shape than the keys give.
    TensorShape {
        /// The name.
        name: String,
        /// Dimensions, row length first.
        expected: Vec<u64>,
        /// The shape in the file.
        found: Shape,
        /// Other layers in which it is wrong too.
        n_more: usize,
    },
    /// A tensor that it does not create.
    ExtraTensor {
        /// The name.
        name: String,
        /// Other layers that have it too.
        n_more: usize,
    },
}

impl Refusal {
    /// The tensor or key that it is about.
    pub fn subject(&self) -> Option<&str> {
        match self {
            Refusal::MissingTensor { name, .. }
            | Refusal::TensorShape { name, .. }
            | Refusal::ExtraTensor { name, .. } => Some(name),
            Refusal::MissingKey { key } | Refusal::KeyType { key, .. } | Refusal::KeyLength { key, .. } => {
                Some(key)
            }
            Refusal::KeyValues { .. } => None,
        }
    }

    /// A name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::MissingKey { .. } => "missing_key",
            Refusal::KeyType { .. } | Refusal::KeyLength { .. } | Refusal::KeyValues { .. } => "key",
            Refusal::MissingTensor { .. } => "missing_tensor",
            Refusal::TensorShape { .. } => "tensor_shape",
            Refusal::ExtraTensor { .. } => "extra_tensor",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_more = match self {
            Refusal::MissingKey { key } => {
                write!(f, "missing metadata key `{key}`")?;
                0
            }
            Refusal::KeyType { key, expected, found } => {
                write!(f, "metadata key `{key}`: expected type {expected}, found {found}")?;
                0
            }
            Refusal::KeyLength { key, expected, found } => {
                write!(f, "metadata key `{key}`: expected {expected} elements, found {found}")?;
                0
            }
            Refusal::KeyValues { keys } => {
                write!(f, "values not supported: {}", keys.join(", "))?;
                0
            }
            Refusal::MissingTensor { name, n_more } => {
                write!(f, "missing tensor `{name}`")?;
                *n_more
            }
            Refusal::TensorShape { name, expected, found, n_more } => {
                write!(f, "tensor `{name}`: expected shape {expected:?}, found {:?}", found.dims())?;
                *n_more
            }
            Refusal::ExtraTensor { name, n_more } => {
                write!(f, "extra tensor `{name}`")?;
                *n_more
            }
        };
        match n_more {
            0 => Ok(()),
            1 => write!(f, " (and in 1 more layer)"),
            n => write!(f, " (and in {n} more layers)"),
        }
    }
}

/// Reasons why llama.cpp does not load a file of these keys and tensors; none for a file that it loads. `None` for an
/// architecture that llama.cpp does not know.
pub fn refusals<'a>(
    metadata: &'a Metadata,
    tensors: impl IntoIterator<Item = (&'a str, Shape)>,
) -> Option<Vec<Refusal>> {
    let architecture = metadata.get("general.architecture").and_then(Value::as_str)?;
    let own = section(architecture)?;
    let common = section("*")?;
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
        found = created.refusals(&facts);
    }
    Some(found)
}

/// The name of the type in which llama.cpp reads a key of an architecture (`u32`); `None` for keys that it does not read.
pub fn key_type(architecture: &str, key: &str) -> Option<&'static str> {
    let (common, own) = (section("*")?, section(architecture)?);
    let short = key.strip_prefix(architecture).filter(|rest| rest.starts_with('.')).unwrap_or(key);
    let is_read = |section: &Section| {
        section.needs.iter().any(|(key, _)| *key == short) || section.reads.contains(&short)
    };
    let (_, kinds, _) = common.types.iter().find(|(key, ..)| *key == short)?;
    let kind = kinds.split('/').next()?;
    (is_read(&common) || is_read(&own)).then_some(kind)
}

/// True if llama.cpp reads a file without this key as one in which it has this value. A list has the value if each element has.
pub fn is_default(metadata: &Metadata, key: &str, value: &Value) -> bool {
    let architecture = metadata.get("general.architecture").and_then(Value::as_str);
    let Some((architecture, common)) = architecture.zip(section("*")) else { return false };
    let Some(own) = section(architecture) else { return false };
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
    for (key, condition) in common.needs.iter().chain(&own.needs) {
        let is_needed = condition
            .as_ref()
            .is_none_or(|condition| facts.is_true(condition, Layers::default()) == Some(true));
        if is_needed && !facts.metadata.contains(&facts.key(key)) {
            found.push(Refusal::MissingKey { key: facts.key(key) });
        }
    }
    let read: BTreeSet<&str> = [common, own]
        .iter()
        .flat_map(|section| section.needs.iter().map(|(key, _)| *key).chain(section.reads.iter().copied()))
        .collect();
    for (key, kinds, length) in common.types.iter().filter(|(key, ..)| read.contains(key)) {
        let name = facts.key(key);
        let Some(value) = facts.metadata.get(&name) else { continue };
        found.extend(wrong_type(facts, name, value, kinds, length.as_ref()));
    }
    if !found.is_empty() {
        return found;
    }
    for (loops, condition) in common.refusals.iter().chain(&own.refusals) {
        let mut is_met = false;
        each_layer(facts, loops, Layers::default(), rounds, &mut |layers| {
            is_met |= facts.is_true(condition, layers) == Some(true);
        });
        if is_met {
            found.push(Refusal::KeyValues { keys: stated(facts, condition) });
        }
    }
    found.dedup();
    found
}

fn wrong_type<'a>(
    facts: &Facts<'a>,
    key: String,
    value: &Value,
    kinds: &str,
    length: Option<&Expr<'a>>,
) -> Option<Refusal> {
    let expected = || kinds.replace('/', " or ");
    let type_name = |id| gguf_container::type_name(id).unwrap_or("an unknown type").to_owned();
    let Some(list) = value.as_array() else {
        let found = type_name(value.type_id());
        return (!kinds.split('/').any(|kind| kind == found)).then(|| Refusal::KeyType {
            key,
            expected: expected(),
            found,
        });
    };
    let Some(length) = length else {
        // A key that is one value for some architectures and a list for others is not judged.
        return None;
    };
    let expected = u64::try_from(facts.int(length, Layers::default())?).ok()?;
    let found = list.len() as u64;
    (found != expected).then_some(Refusal::KeyLength { key, expected, found })
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
        let expected: Option<Vec<u64>> = sizes.iter().map(|size| u64::try_from((*size)?).ok()).collect();
        if let Some(expected) = expected.filter(|_| flags.is_some()) {
            let is_right = match flags.is_some_and(|flags| flags & RESHAPE != 0) {
                true => {
                    expected.iter().try_fold(1u64, |product, size| product.checked_mul(*size))
                        == Some(found.n_elems())
                }
                false => (0..gguf_types::MAX_DIMS)
                    .all(|dim| found.dim(dim) == expected.get(dim).copied().unwrap_or(1)),
            };
            if !is_right {
                self.wrong.insert(name.clone(), expected);
            }
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
                .filter(|name| !self.is_scale(name))
                .map(|name| (*name).to_owned())
                .collect();
            for names in by_layer(extra.iter()) {
                let [name, more @ ..] = names.as_slice() else { continue };
                found.push(Refusal::ExtraTensor { name: (*name).clone(), n_more: more.len() });
            }
        }
        found
    }

    /// True for the scale of a weight, which any architecture may have.
    fn is_scale(&self, name: &str) -> bool {
        let Some(matrix) = name.strip_suffix(".scale").or_else(|| name.strip_suffix(".input_scale")) else {
            return false;
        };
        gguf_container::may_have_scale(matrix) && self.names.contains(&format!("{matrix}.weight"))
    }
}

/// Groups of names that differ in their layer alone, in the order of the layers.
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
