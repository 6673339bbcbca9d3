//! Names under which adapters know the tensors of a diffusion model.
//!
//! A trainer that loads a model through diffusers names its adapters after the modules of diffusers. The original layout, which
//! files of ComfyUI and stable-diffusion.cpp have, names these modules differently and joins some: the projections of
//! queries, keys and values of Flux are the rows of one matrix. A family states both names and the rows as data.

use std::ops::Range;

use serde::Deserialize;

/// A module of another layout, and the tensor of the original layout that contains its weights.
///
/// `{}` in a name stands for a number. `{rest}` at the start or the end stands for any other parts of the name. Both names have
/// the same placeholders in the same order. A file of families has a list of both names and, if it is a part, the rows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct AdapterName {
    /// Name of the tensor in the original layout, without `.weight` and `.bias`.
    pub tensor: String,
    /// Name of the module in the layout of the adapter.
    pub module: String,
    /// Rows of the tensor that are the module's.
    pub rows: AdapterRows,
}

impl TryFrom<Vec<String>> for AdapterName {
    type Error = String;

    fn try_from(list: Vec<String>) -> Result<AdapterName, String> {
        let (tensor, module, rows) = match <[String; 2]>::try_from(list) {
            Ok([tensor, module]) => (tensor, module, AdapterRows::All),
            Err(list) => {
                let [tensor, module, rows] = <[String; 3]>::try_from(list)
                    .map_err(|list| format!("expected two names and the rows, found {list:?}"))?;
                let unknown = || {
                    format!(
                        "unknown rows `{rows}`; expected `query`, `key`, `value`, `square N`, `after N squares`, `swapped halves` or `swapped pair`"
                    )
                };
                (tensor, module, AdapterRows::from_text(&rows).ok_or_else(unknown)?)
            }
        };
        let placeholders = |name: &str| -> Vec<String> {
            name.split('.').filter(|part| part.starts_with('{')).map(str::to_owned).collect()
        };
        if placeholders(&tensor) != placeholders(&module) {
            return Err(format!("`{tensor}` and `{module}` have different placeholders"));
        }
        Ok(AdapterName { tensor, module, rows })
    }
}

/// Rows of a matrix (n_rows, n_columns) that belong to one module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdapterRows {
    /// All rows.
    All,
    /// Queries of a joint matrix of queries, keys and values: as many rows as columns.
    Query,
    /// Keys of such a matrix: the first half of the rest.
    Key,
    /// Values of such a matrix: the second half of the rest.
    Value,
    /// One of several square matrices at the start, counted from 0.
    Square(u64),
    /// Everything after this number of square matrices.
    AfterSquares(u64),
    /// All rows, with the two halves exchanged: diffusers stores scales before shifts.
    SwappedHalves,
    /// As [`AdapterRows::SwappedHalves`] if the matrix has twice as many rows as columns, otherwise all rows: one scale and one
    /// shift, or several of both.
    SwappedPair,
}

/// Rows of a tensor, and the place of the first among the rows of the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowRange {
    /// Rows of the tensor.
    pub rows: Range<u64>,
    /// The row of the module that belongs to the first.
    pub first: u64,
}

impl AdapterRows {
    /// Rows by their text in a file of families.
    fn from_text(text: &str) -> Option<AdapterRows> {
        Some(match text {
            "query" => AdapterRows::Query,
            "key" => AdapterRows::Key,
            "value" => AdapterRows::Value,
            "swapped halves" => AdapterRows::SwappedHalves,
            "swapped pair" => AdapterRows::SwappedPair,
            _ => match text.strip_prefix("square ") {
                Some(index) => AdapterRows::Square(index.parse().ok()?),
                None => {
                    let n = text.strip_prefix("after ")?.strip_suffix(" squares")?;
                    AdapterRows::AfterSquares(n.parse().ok()?)
                }
            },
        })
    }

    /// The rows of a matrix (n_rows, n_columns), or of the vector of its biases (n_rows). `None` if a matrix of this shape cannot
    /// be divided in this way.
    pub fn ranges(self, n_rows: u64, n_columns: u64) -> Option<Vec<RowRange>> {
        let one = |rows: Range<u64>| Some(vec![RowRange { rows, first: 0 }]);
        let squares = |n: u64| n_columns.checked_mul(n).filter(|rows| *rows <= n_rows);
        let half = || {
            let rest = n_rows.checked_sub(n_columns)?;
            rest.is_multiple_of(2).then_some(rest / 2).filter(|half| *half > 0)
        };
        match self {
            AdapterRows::All => one(0..n_rows),
            AdapterRows::SwappedPair if squares(2) != Some(n_rows) => one(0..n_rows),
            AdapterRows::Query => half().and_then(|_| one(0..n_columns)),
            AdapterRows::Key => half().and_then(|half| one(n_columns..n_columns + half)),
            AdapterRows::Value => half().and_then(|half| one(n_columns + half..n_rows)),
            AdapterRows::Square(index) => {
                squares(index.checked_add(1)?).and_then(|end| one(end - n_columns..end))
            }
            AdapterRows::AfterSquares(n) => {
                squares(n).filter(|first| *first < n_rows).and_then(|first| one(first..n_rows))
            }
            AdapterRows::SwappedHalves | AdapterRows::SwappedPair => n_rows.is_multiple_of(2).then(|| {
                let half = n_rows / 2;
                vec![RowRange { rows: 0..half, first: half }, RowRange { rows: half..n_rows, first: 0 }]
            }),
        }
    }
}

impl AdapterRows {
    /// The rows of a joint module of the original layout, for a tensor (n_rows, n_columns) of another layout that holds some of
    /// them: all rows of the tensor, and their place among those of the module. `None` if such a tensor cannot be that part.
    pub fn joint_ranges(self, n_rows: u64, n_columns: u64) -> Option<Vec<RowRange>> {
        let at = |first: Option<u64>| Some(vec![RowRange { rows: 0..n_rows, first: first? }]);
        let is_square = n_rows == n_columns;
        match self {
            AdapterRows::All => at(Some(0)),
            AdapterRows::Query => at(is_square.then_some(0)),
            AdapterRows::Key => at(Some(n_columns)),
            AdapterRows::Value => at(n_columns.checked_add(n_rows)),
            AdapterRows::Square(index) => at(n_columns.checked_mul(index).filter(|_| is_square)),
            AdapterRows::AfterSquares(n) => at(n_columns.checked_mul(n)),
            AdapterRows::SwappedHalves | AdapterRows::SwappedPair => self.ranges(n_rows, n_columns),
        }
    }
}

/// The tensors of the original layout that contain a module of another layout, and which of their rows it is: the inverse of
/// [`adapter_names`].
pub fn original_names(stages: &[&[AdapterName]], module: &str) -> Vec<(String, AdapterRows)> {
    let mut names = vec![(module.to_owned(), AdapterRows::All)];
    for stage in stages.iter().rev() {
        names = renamed(&names, stage, |rule| [&rule.module, &rule.tensor]);
    }
    names.retain(|(name, _)| name != module);
    names
}

/// The names under which adapters know a tensor of the original layout, in addition to its own. Stages are applied one after
/// another: the second renames what the first returned, or the tensor if the first has no rule for it.
pub fn adapter_names(stages: &[&[AdapterName]], tensor: &str) -> Vec<(String, AdapterRows)> {
    let mut names = vec![(tensor.to_owned(), AdapterRows::All)];
    for stage in stages {
        names = renamed(&names, stage, |rule| [&rule.tensor, &rule.module]);
    }
    names.retain(|(name, _)| name != tensor);
    names
}

/// The names after one stage. `patterns` returns the old and the new pattern of a rule. Names without a rule stay as they are.
fn renamed(
    names: &[(String, AdapterRows)],
    stage: &[AdapterName],
    patterns: fn(&AdapterName) -> [&str; 2],
) -> Vec<(String, AdapterRows)> {
    let renamed = names.iter().flat_map(|(name, rows)| {
        let found: Vec<(String, AdapterRows)> = stage
            .iter()
            .filter_map(|rule| {
                let [from, to] = patterns(rule);
                let joined = if *rows == AdapterRows::All { rule.rows } else { *rows };
                Some((filled(to, &captures(from, name)?), joined))
            })
            .collect();
        if found.is_empty() { vec![(name.clone(), *rows)] } else { found }
    });
    renamed.collect()
}

/// The parts of `name` for the placeholders of a pattern, in their order.
pub(crate) fn captures<'a>(pattern: &str, name: &'a str) -> Option<Vec<&'a str>> {
    if let Some(end) = pattern.strip_prefix("{rest}.") {
        return Some(vec![name.strip_suffix(end)?.strip_suffix('.')?]);
    }
    let (start, has_rest) = pattern.strip_suffix(".{rest}").map_or((pattern, false), |start| (start, true));
    let (mut found, mut left) = (Vec::new(), name);
    let mut parts = start.split('.').peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none() && !has_rest;
        let (first, rest) = match left.split_once('.') {
            Some((first, rest)) if !is_last => (first, rest),
            None if is_last => (left, ""),
            _ => return None,
        };
        match part {
            "{}" if !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit()) => found.push(first),
            _ if part == first => {}
            _ => return None,
        }
        left = rest;
    }
    if has_rest {
        found.push(left);
    }
    Some(found)
}

/// A name with its placeholders replaced.
pub(crate) fn filled(pattern: &str, captures: &[&str]) -> String {
    let mut captures = captures.iter();
    let parts = pattern.split('.').map(|part| match part {
        "{}" | "{rest}" => captures.next().copied().unwrap_or_default(),
        _ => part,
    });
    parts.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of blocks and of modules inside them.
    fn stages() -> [Vec<AdapterName>; 2] {
        let name = |list: &[&str]| {
            AdapterName::try_from(list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()).unwrap()
        };
        let blocks = vec![
            name(&["double_blocks.{}.img_attn.qkv", "blocks.{}.attn.to_q", "query"]),
            name(&["double_blocks.{}.img_attn.qkv", "blocks.{}.attn.to_k", "key"]),
            name(&["input_blocks.1.0.{rest}", "down_blocks.0.resnets.0.{rest}"]),
        ];
        [blocks, vec![name(&["{rest}.in_layers.2", "{rest}.conv1"])]]
    }

    #[test]
    fn stages_rename_numbers_and_rests() {
        let [blocks, inner] = stages();
        let names = |tensor| adapter_names(&[&blocks, &inner], tensor);
        assert_eq!(
            names("double_blocks.17.img_attn.qkv"),
            [
                ("blocks.17.attn.to_q".to_owned(), AdapterRows::Query),
                ("blocks.17.attn.to_k".to_owned(), AdapterRows::Key)
            ]
        );
        let conv = ("down_blocks.0.resnets.0.conv1".to_owned(), AdapterRows::All);
        assert_eq!(names("input_blocks.1.0.in_layers.2"), [conv]);
        for other in
            ["double_blocks.x.img_attn.qkv", "double_blocks.1.img_attn.qkv.a", "input_blocks.1.0", ""]
        {
            assert_eq!(names(other), [], "{other}");
        }
    }

    #[test]
    fn original_names_invert_names() {
        let [blocks, inner] = stages();
        let stages = [&blocks[..], &inner];
        for tensor in ["double_blocks.17.img_attn.qkv", "input_blocks.1.0.in_layers.2"] {
            for (module, rows) in adapter_names(&stages, tensor) {
                assert_eq!(original_names(&stages, &module), [(tensor.to_owned(), rows)]);
            }
        }
        assert_eq!(original_names(&stages, "other.weight"), []);
    }

    #[test]
    fn parts_are_at_their_place_in_the_joint_matrix() {
        use AdapterRows::*;
        for (part, joint_rows) in [
            (Query, 8),
            (Key, 8),
            (Value, 8),
            (Square(0), 28),
            (Square(2), 28),
            (AfterSquares(3), 28),
            (All, 5),
        ] {
            let range = part.ranges(joint_rows, 4).unwrap().remove(0);
            let n_rows = range.rows.end - range.rows.start;
            let place = RowRange { rows: 0..n_rows, first: range.rows.start };
            assert_eq!(part.joint_ranges(n_rows, 4), Some(vec![place]), "{part:?}");
        }
        assert_eq!(SwappedHalves.joint_ranges(8, 4), SwappedHalves.ranges(8, 4));
        assert_eq!(Square(1).joint_ranges(5, 4), None);
    }

    #[test]
    fn parts_of_a_matrix_cover_its_rows_once() {
        use AdapterRows::*;
        // Flux: qkv (3 d, d), linear1 (3 d + mlp, d); Lumina: queries (d, d), fewer keys and values.
        for (parts, n_rows, ends) in [
            (&[Query, Key, Value][..], 12, &[4, 8, 12][..]),
            (&[Query, Key, Value], 8, &[4, 6, 8]),
            (&[Square(0), Square(1), Square(2), AfterSquares(3)], 28, &[4, 8, 12, 28]),
            (&[All], 7, &[7]),
        ] {
            let mut begin = 0;
            for (part, end) in parts.iter().zip(ends) {
                let range = RowRange { rows: begin..*end, first: 0 };
                assert_eq!(part.ranges(n_rows, 4), Some(vec![range]), "{part:?}");
                begin = *end;
            }
            assert_eq!(begin, n_rows);
        }
        let halves = [RowRange { rows: 0..4, first: 4 }, RowRange { rows: 4..8, first: 0 }];
        assert_eq!(SwappedHalves.ranges(8, 4), Some(halves.to_vec()));
        assert_eq!(SwappedPair.ranges(8, 4), Some(halves.to_vec()));
        assert_eq!(SwappedPair.ranges(24, 4), All.ranges(24, 4));
        for (part, n_rows) in
            [(Query, 3), (Key, 7), (Value, 4), (Square(2), 8), (AfterSquares(3), 12), (SwappedHalves, 7)]
        {
            assert_eq!(part.ranges(n_rows, 4), None, "{part:?}");
        }
    }
}
