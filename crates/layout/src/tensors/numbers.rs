//! Tensors of one number, which become keys.

use std::collections::BTreeMap;

use gguf_container::{Array, Value};

use super::context::Context;
use super::rules::{self, NumberRule};
use crate::{ArchError, Input, SourceTensor};

impl Context<'_> {
    /// The rule and the layer of a tensor that becomes a part of a key, if it is one.
    pub(super) fn number(&self, name: &str) -> Option<(&'static NumberRule, u64)> {
        if self.numbers.is_empty() {
            return None;
        }
        let name = self.name_in_table(name);
        let match_rule = |rule: &'static NumberRule| Some((rule, rules::parse(rule.hf, &name)?.0));
        let found = self.numbers.iter().find_map(match_rule);
        // A number from the layer count on is no layer of the model.
        found.filter(|(_, bid)| *bid < self.hparams.n_layers().unwrap_or(0))
    }

    /// The keys that tensors of one number become, in the order in which the reference has met all of each.
    ///
    /// # Errors
    ///
    /// [`ArchError::MissingTensors`] for layers without such a tensor, [`ArchError::TensorShape`] for one of several
    /// numbers.
    pub fn number_keys(&self, input: &Input<'_>) -> Result<Vec<(&'static str, Value)>, ArchError> {
        // Without a reader nothing can be said of values.
        let Some(values) = input.values.as_ref() else { return Ok(Vec::new()) };
        let mut found: BTreeMap<&str, (usize, BTreeMap<u64, f32>)> = BTreeMap::new();
        for (place, tensor) in input.tensors.iter().enumerate() {
            let Some((rule, bid)) = self.number(&tensor.name) else { continue };
            let number = self.number_of(rule, tensor, values.read(&tensor.name))?;
            let (last, numbers) = found.entry(rule.key).or_default();
            // The place of the key's last tensor, by which keys are put in order below.
            *last = place;
            numbers.insert(bid, number);
        }
        // No more layers are looked at than it takes to show that one is missing.
        let n_layers = self.hparams.n_layers()?.min(input.tensors.len() as u64 + 1);
        let n_numbers = |rule: &NumberRule| if rule.is_of_layers() { n_layers } else { 1 };
        let lacks =
            |rule: &NumberRule, bid: &u64| !found.get(rule.key).is_some_and(|(_, of)| of.contains_key(bid));
        let absent = |rule: &'static NumberRule| {
            let bids = (0..n_numbers(rule)).filter(move |bid| lacks(rule, bid));
            bids.map(|bid| rules::fill(rule.hf, bid, 0)).collect::<Vec<_>>()
        };
        let names: Vec<String> = self.numbers.iter().flat_map(absent).collect();
        if !names.is_empty() {
            return Err(ArchError::MissingTensors { names });
        }
        let mut keys: Vec<(usize, &'static str, Value)> = Vec::with_capacity(self.numbers.len());
        for rule in self.numbers {
            if let Some((last, numbers)) = found.remove(rule.key) {
                // The map is sorted by layer, and so is the array.
                let mut numbers = numbers.into_values();
                let value = if rule.is_of_layers() {
                    Value::Array(Array::F32(numbers.collect()))
                } else {
                    Value::F32(numbers.next().unwrap_or_default())
                };
                keys.push((last, rule.key, value));
            }
        }
        keys.sort_by_key(|(last, ..)| *last);
        Ok(keys.into_iter().map(|(_, key, value)| (key, value)).collect())
    }

    /// The number that a tensor of one, or the first of several that determine it, gives.
    fn number_of(
        &self,
        rule: &NumberRule,
        tensor: &SourceTensor,
        values: Option<Vec<f32>>,
    ) -> Result<f32, ArchError> {
        let differs = |expected: &str| ArchError::TensorShape {
            name: tensor.name.clone(),
            found: tensor.shape,
            expected: expected.to_owned(),
        };
        match (rule.first, values.as_deref()) {
            (Some(number), Some([first, ..])) => number(self.hparams, *first),
            (Some(_), _) => Err(differs("a vector")),
            (None, Some([number])) => Ok(*number),
            (None, _) => Err(differs("one number")),
        }
    }
}
