//! Meta's layout: `consolidated.NN.pth`, each with a part of every matrix, and `params.json`. Also Mistral's
//! mixtures in this layout.
//!
//! ```text
//! shard 0: wq (out / n, in)   wo (out, in / n)   norm (dim)   <- the parts that the first of n processors held
//! shard 1: wq (out / n, in)   wo (out, in / n)   norm (dim)
//! ```
//!
//! The parts of a matrix are joined by rows if its outputs were split, and by columns if its inputs were.
//! Vectors are equal in all shards. The embedding was split by columns up to Llama 2 and by rows, which are
//! tokens, since Llama 3; its shape shows which.
//!
//! The first Mixtral came as `consolidated.NN.pt`, each with different tensors and the experts of a layer in
//! one:
//!
//! ```text
//! layers.N.block_sparse_moe.w1, w3   (experts f, dim)   f rows of each expert
//! layers.N.block_sparse_moe.w2       (experts f, dim)   the same, turned
//! ```
//!
//! Tensors are in the order of Hugging Face's copy of the weights, so that outputs are equal.
//!
//! Source: `ParallelEmbedding`, `ColumnParallelLinear`, `RowParallelLinear` of fairscale as `model.py` of Llama 1 to 3
//! uses them; `convert_mixtral_weights_to_hf.py` of transformers 4.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ops::Range,
    path::Path,
    sync::Arc,
};

use super::{parse, strided::transposed};
use crate::{Error, Listing, Part, ReadError, Region, Span, Stored, Tensor, Weights, read_columns};

const PREFIX: &str = "consolidated.";
/// Meta's suffix, and that of the first Mixtral.
const SUFFIXES: [&str; 2] = [".pth", ".pt"];

/// Distribution of a tensor over shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Split {
    Rows,
    Columns,
    Alike,
}

/// Suffixes of matrices, how they are split, and their names in Hugging Face's copy.
const MATRICES: &[(&str, Split, &str)] = &[
    ("attention.wq.weight", Split::Rows, "self_attn.q_proj.weight"),
    ("attention.wk.weight", Split::Rows, "self_attn.k_proj.weight"),
    ("attention.wv.weight", Split::Rows, "self_attn.v_proj.weight"),
    ("attention.wo.weight", Split::Columns, "self_attn.o_proj.weight"),
    ("feed_forward.w1.weight", Split::Rows, "mlp.gate_proj.weight"),
    ("feed_forward.w2.weight", Split::Columns, "mlp.down_proj.weight"),
    ("feed_forward.w3.weight", Split::Rows, "mlp.up_proj.weight"),
    ("output.weight", Split::Rows, "lm_head.weight"),
];

/// Other parts of names that differ in Hugging Face's copy.
const RENAMED: &[(&str, &str)] = &[
    ("tok_embeddings", "model.embed_tokens"),
    ("attention_norm", "input_layernorm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("feed_forward.", "block_sparse_moe."),
];

/// First file of a folder in this layout.
pub(crate) fn detect(listing: &Listing) -> Option<String> {
    SUFFIXES.iter().flat_map(|suffix| listing.matching(PREFIX, suffix)).next()
}

pub(crate) fn open(dir: &Path, listing: &Listing) -> Result<Weights, Error> {
    let with_suffix = |suffix: &&str| (listing.matching(PREFIX, suffix), (*suffix).to_owned());
    let mut found = SUFFIXES.iter().map(with_suffix).filter(|(names, _)| !names.is_empty());
    let (names, suffix) = found.next().unwrap_or_default();
    for at in 0..names.len() {
        let file = format!("{PREFIX}{at:02}{suffix}");
        if !names.contains(&file) {
            let reason = format!("there are {} files `{PREFIX}*{suffix}`", names.len());
            return Err(Error::MissingShard { file, reason });
        }
    }
    let (mut parts, mut shards, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for (place, name) in names.iter().enumerate() {
        let part = listing.open(dir, name)?;
        let (tensors, more) = parse(place, &part)?;
        if tensors.is_empty() {
            return Err(Error::NoTensors { file: name.clone() });
        }
        parts.push(part);
        shards.push(tensors);
        notes.extend(more);
    }
    let is_split = !have_other_tensors(&shards);
    let tensors = if is_split { merged(&parts, shards)? } else { shards.concat() };
    let mut tensors = experts_apart(&parts, tensors)?;
    tensors.sort_by_cached_key(|tensor| renamed(&tensor.name));
    if is_split && parts.len() > 1 {
        notes.push(format!("{} shards are merged", parts.len()));
    }
    Ok(Weights { parts, tensors, notes })
}

/// True if each shard has different tensors and no name occurs twice.
fn have_other_tensors(shards: &[Vec<Tensor>]) -> bool {
    let names: HashSet<&str> = shards.iter().flatten().map(|tensor| tensor.name.as_str()).collect();
    shards.len() > 1 && names.len() == shards.iter().map(Vec::len).sum::<usize>()
}

/// Splits stacks of experts, under the names of later releases.
fn experts_apart(parts: &[Part], tensors: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
    const STACK: &str = ".block_sparse_moe.";
    let routers: HashMap<String, u64> = tensors
        .iter()
        .filter_map(|tensor| Some((tensor.name.strip_suffix("gate.weight")?.to_owned(), tensor.n_rows())))
        .collect();
    let mut apart = Vec::with_capacity(tensors.len());
    for stack in tensors {
        let Some((layer, matrix)) = stack.name.split_once(STACK) else {
            apart.push(stack);
            continue;
        };
        let (layer, matrix) = (layer.to_owned(), matrix.to_owned());
        if !["w1", "w2", "w3"].contains(&matrix.as_str()) {
            apart.push(Tensor { name: format!("{layer}.feed_forward.{matrix}"), ..stack });
            continue;
        }
        let n_experts = routers.get(&format!("{layer}{STACK}")).copied().unwrap_or_default();
        let ([n_rows, dim], None) = (&stack.shape[..], &stack.stored) else {
            return Err(differ(parts, &stack.name, "it is not a plain matrix".to_owned()));
        };
        if n_experts == 0 || !n_rows.is_multiple_of(n_experts) {
            let problem = format!("its {n_rows} rows do not match the {n_experts} experts of `gate`");
            return Err(differ(parts, &stack.name, problem));
        }
        let (width, dim) = (n_rows / n_experts, *dim);
        let n_bytes = stack.n_bytes() / n_experts;
        for expert in 0..n_experts {
            let name = format!("{layer}.feed_forward.experts.{expert}.{matrix}.weight");
            let begin = stack.begin + expert * n_bytes;
            let plain =
                Tensor { name, shape: vec![width, dim], begin, end: begin + n_bytes, ..stack.clone() };
            apart.push(if matrix == "w2" { transposed(plain) } else { plain });
        }
    }
    Ok(apart)
}

fn renamed(name: &str) -> String {
    if let Some((end, _, other)) = MATRICES.iter().find(|(end, ..)| name.ends_with(end)) {
        let start = name.strip_suffix(end).unwrap_or_default();
        return if start.is_empty() { (*other).to_owned() } else { format!("model.{start}{other}") };
    }
    let mut renamed = name.to_owned();
    RENAMED.iter().for_each(|(from, to)| renamed = renamed.replace(from, to));
    if renamed.starts_with("model.") { renamed } else { format!("model.{renamed}") }
}

/// Merges the tensors of shards; those of the first shard give the names.
fn merged(parts: &[Part], mut shards: Vec<Vec<Tensor>>) -> Result<Vec<Tensor>, Error> {
    let first = shards.remove(0);
    let mut rest_shards: Vec<HashMap<String, Tensor>> = Vec::with_capacity(shards.len());
    for (shard, part) in shards.into_iter().zip(&parts[1..]) {
        let shard: HashMap<_, _> = shard.into_iter().map(|tensor| (tensor.name.clone(), tensor)).collect();
        if let Some(tensor) = first.iter().find(|tensor| !shard.contains_key(&tensor.name)) {
            return Err(differ(parts, &tensor.name, format!("`{}` lacks it", part.file)));
        }
        if let Some(name) = shard.keys().filter(|name| first.iter().all(|tensor| tensor.name != **name)).min()
        {
            return Err(differ(parts, name, format!("`{}` lacks it", parts[0].file)));
        }
        rest_shards.push(shard);
    }
    // Width of the model, which shows how the embedding is split.
    let dim = first.iter().find(|tensor| tensor.name == "norm.weight").map(Tensor::row_elems);
    first
        .into_iter()
        .map(|tensor| {
            if rest_shards.is_empty() {
                return Ok(tensor);
            }
            let name = tensor.name.clone();
            let rest = rest_shards.iter_mut().filter_map(|shard| shard.remove(&name));
            let pieces: Vec<Tensor> = [tensor].into_iter().chain(rest).collect();
            merge(parts, pieces, dim)
        })
        .collect()
}

fn differ(parts: &[Part], tensor: &str, problem: String) -> Error {
    let files = format!("{}` to `{}", parts[0].file, parts[parts.len() - 1].file);
    Error::ShardsDiffer { files, tensor: tensor.to_owned(), problem }
}

/// Merges at least two pieces of a tensor.
fn merge(parts: &[Part], pieces: Vec<Tensor>, dim: Option<u64>) -> Result<Tensor, Error> {
    let first = &pieces[0];
    let wrong = |problem: String| differ(parts, &first.name, problem);
    if let Some(other) = pieces.iter().find(|piece| piece.dtype != first.dtype || piece.shape != first.shape)
    {
        let of = |tensor: &Tensor| format!("{:?} of {}", tensor.shape, tensor.dtype);
        return Err(wrong(format!("shape {} in the first, {} in another", of(first), of(other))));
    }
    let n = pieces.len() as u64;
    let split = match first.shape[..] {
        [] | [_] => Split::Alike,
        [_, columns] if first.name == "tok_embeddings.weight" => match dim {
            Some(dim) if columns == dim => Split::Rows,
            Some(dim) if columns.checked_mul(n) == Some(dim) => Split::Columns,
            _ => {
                return Err(wrong(format!(
                    "{n} parts of {columns} columns do not make the width of `norm.weight`"
                )));
            }
        },
        [_, _] => {
            let row = MATRICES.iter().find(|(end, ..)| first.name.ends_with(end));
            row.ok_or_else(|| wrong("nothing defines how it is split".to_owned()))?.1
        }
        _ => return Err(wrong("nothing defines how it is split".to_owned())),
    };
    if split == Split::Alike {
        let values = |tensor: &Tensor| tensor.span().of(parts).map(Cow::into_owned);
        let expected = values(first)?;
        for piece in &pieces {
            if values(piece)? != expected || piece.stored.is_some() {
                return Err(wrong("its values are not the same in all of them".to_owned()));
            }
        }
        return Ok(first.clone());
    }
    let mut shape = first.shape.clone();
    let at = usize::from(split == Split::Columns);
    shape[at] = shape[at].checked_mul(n).ok_or_else(|| wrong("its total size is out of range".to_owned()))?;
    let whole = Tensor { shape, begin: 0, end: 0, stored: None, ..first.clone() };
    Ok(Tensor { stored: Some(Arc::new(Merged { split, pieces })), ..whole })
}

/// A matrix in several files: pieces of one shape, by rows or by columns.
#[derive(Debug)]
struct Merged {
    split: Split,
    pieces: Vec<Tensor>,
}

/// Part of a range that falls into piece `at` of pieces of `size`, relative to the piece's start.
fn inside(range: &Range<u64>, at: usize, size: u64) -> Range<u64> {
    let begin = at as u64 * size;
    let place = |i: u64| i.saturating_sub(begin).min(size);
    place(range.start)..place(range.end)
}

impl Merged {
    /// A piece's own rows and columns of a range of the matrix.
    fn part_of(&self, at: usize, rows: &Range<u64>, columns: &Range<u64>) -> (Range<u64>, Range<u64>) {
        let piece = &self.pieces[at];
        match self.split {
            Split::Columns => (rows.clone(), inside(columns, at, piece.row_elems())),
            _ => (inside(rows, at, piece.n_rows()), columns.clone()),
        }
    }
}

impl Stored for Merged {
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        let width = (columns.end - columns.start) as usize;
        for (at, piece) in self.pieces.iter().enumerate() {
            let (own_rows, own_columns) = self.part_of(at, &rows, &columns);
            let n_columns = (own_columns.end - own_columns.start) as usize;
            if own_rows.is_empty() || n_columns == 0 {
                continue;
            }
            // out (rows, width): position of this piece's first row and column.
            let (row, column) = match self.split {
                Split::Columns => (0, (at as u64 * piece.row_elems()).saturating_sub(columns.start)),
                _ => ((at as u64 * piece.n_rows()).saturating_sub(rows.start), 0),
            };
            let out = out.chunks_exact_mut(width).skip(row as usize);
            for (own_row, out) in own_rows.zip(out) {
                let out = &mut out[column as usize..column as usize + n_columns];
                read_columns(parts, piece, own_row..own_row + 1, own_columns.clone(), out)?;
            }
        }
        Ok(())
    }

    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        let mut spans = Vec::with_capacity(self.pieces.len());
        for (at, piece) in self.pieces.iter().enumerate() {
            let (own, _) = self.part_of(at, &rows, &(0..u64::MAX));
            if !own.is_empty() {
                spans.extend(piece.spans(own));
            }
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn original_names_become_hugging_face_names() {
        for (copy, original) in [
            ("tok_embeddings.weight", "model.embed_tokens.weight"),
            ("norm.weight", "model.norm.weight"),
            ("output.weight", "lm_head.weight"),
            ("layers.10.attention.wo.weight", "model.layers.10.self_attn.o_proj.weight"),
            ("layers.2.feed_forward.w2.weight", "model.layers.2.mlp.down_proj.weight"),
            ("layers.2.ffn_norm.weight", "model.layers.2.post_attention_layernorm.weight"),
            ("layers.2.attention_norm.weight", "model.layers.2.input_layernorm.weight"),
            ("layers.2.feed_forward.gate.weight", "model.layers.2.block_sparse_moe.gate.weight"),
            (
                "layers.2.feed_forward.experts.1.w3.weight",
                "model.layers.2.block_sparse_moe.experts.1.w3.weight",
            ),
        ] {
            assert_eq!(renamed(copy), original);
        }
    }

    #[test]
    fn ranges_split_into_pieces() {
        let parts = |range: Range<u64>| (0..3).map(|at| inside(&range, at, 4)).collect::<Vec<_>>();
        assert_eq!(parts(0..12), [0..4, 0..4, 0..4]);
        assert_eq!(parts(3..9), [3..4, 0..4, 0..1]);
        assert_eq!(parts(5..7), [4..4, 1..3, 0..0]);
    }
}
