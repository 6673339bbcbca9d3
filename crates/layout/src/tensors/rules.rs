//! The shape of a tensor table, and the parts that many architectures share.
//!
//! A row says how a tensor is called in the checkpoint and in the file, what happens to its
//! rows, and whether the model can do without it. Patterns leave out `.weight` and `.bias`;
//! `{bid}` stands for the layer and `{xid}` for the expert.

use gguf_types::{DType, Shape};

use crate::config::Hparams;
use crate::{ArchError, Combination, ElementMap, FloatType, Matrix, RowMap};

/// One row of a tensor table.
#[derive(Debug, Clone, Copy)]
pub struct TensorRule {
    /// Names in the checkpoint; the first is the one that transformers writes.
    pub hf: &'static [&'static str],
    /// Name in the GGUF file.
    pub gguf: &'static str,
    /// Transform of the rows.
    pub rows: RowRule,
    /// Necessity of the `.weight`.
    pub need: Need,
    /// Transform of each element of the `.weight`.
    pub element: ElementMap,
    /// Transform of each element that depends on config and layer; takes precedence.
    pub element_of: Option<ElementOf>,
    /// For a tensor whose name in the checkpoint has no ending (`A_log`): its ending in the file
    /// (`.weight`, `.bias` or none at all).
    pub bare: Option<&'static str>,
    /// Another shape for the same elements.
    pub shape: Option<Reshape>,
    /// The type of the `.weight` in files of floats, if its name and shape do not decide.
    pub float: Option<FloatType>,
    /// The output tensor whose values make this one needless: it is left out if they are equal.
    pub twin: Option<&'static str>,
    /// The layers in which the row holds, where another row has the same names in the others.
    pub layers: Option<InLayers>,
}

/// True if a row applies to a layer.
pub type InLayers = fn(&Hparams, u64) -> bool;

/// Row transforms of a tensor.
#[derive(Debug, Clone, Copy)]
pub enum RowRule {
    /// Nothing.
    Copy,
    /// Nothing. The checkpoint may contain the tensor several times, under the names of the rule; the first one
    /// that is met is used, the others are dropped.
    First,
    /// Rotary halves are interleaved within each query head, for weight and bias.
    PermuteQ,
    /// Rotary halves are interleaved within each key head, for weight and bias.
    PermuteK,
    /// Stacks the matrices of all experts of a layer into one tensor of three dimensions. All rules with this
    /// value form one group: its tensors appear, in the order of the table, if the last source of any of
    /// them was met.
    StackExperts,
    /// Selects rows of the weight and the bias. Several rules with the same name in `hf` take a fused
    /// tensor apart, in the order of the table.
    Part(Part),
    /// Transposes the matrix (Conv1D of GPT-2, low-rank factors of RWKV). The map then applies to the rows of
    /// the result.
    Columns(RowMap),
    /// Transposes matrices that are not simply the last two dimensions (experts, heads). The result has three
    /// dimensions.
    Transposed(Transpose),
    /// Depends on the source's shape: [`RowRule::Transposed`], or another value for checkpoints that store
    /// matrices transposed. Exported as the former.
    AsShape(fn(&Hparams, &Shape) -> RowRule),
    /// Only the map: rows of a tensor that the checkpoint holds in blocks. Another rule names the same tensor
    /// in floats, the form it is exported to.
    Blocks(RowMap),
    /// One frame of the kernels of a convolution over time, height and width, (out, in, frames, height, width), counted
    /// from 0. There must be two.
    Frame(u64),
    /// The row of a token, by its number, as a vector.
    TokenRow(fn(&Hparams) -> u64),
    /// Stacks several source tensors of the same shape along a new outer dimension. The sources are either the
    /// first `n` names of `hf`, or the only name with `{xid}` = 0 .. n; the function gives n. Unlike in other
    /// rules, `hf` is a list of parts here, not of alternative spellings. The result appears if the last
    /// part was met.
    Fuse(fn(&Hparams) -> usize),
    /// [`RowRule::Fuse`], then only these rows. Several rules may name the same sources.
    FuseRows(fn(&Hparams) -> usize, RowMap),
    /// [`RowRule::Fuse`] with a number that depends on the layer.
    FuseInLayer(fn(&Hparams, u64) -> usize),
    /// [`RowRule::Fuse`] of matrices with equal row lengths; matrices with fewer rows are padded with rows of zeros.
    FusePadded(fn(&Hparams) -> usize),
    /// Several vectors of equal length, combined element by element; `hf` has the names of all, in the order of the operands. The
    /// result appears if the last one was met. A tensor may be an operand of several rules.
    Combine(Combination),
    /// Codebooks: the rows of a matrix, divided by their counts. `hf` has the names of sums and counts, with `{xid}` for the
    /// codebook; the function returns the number of codebooks. Several are stacked.
    Codebooks(fn(&Hparams) -> usize),
    /// The rows of matrices and vectors, concatenated, then one row that is the product of a matrix and a vector. `hf` has
    /// the names of both, then of tensors whose rows are taken. The sources and the function are those of
    /// [`RowRule::Fuse`]. The result appears if the last part was met.
    Extend(fn(&Hparams) -> usize),
    /// A square grid of rows, interpolated to the number of rows per side that the function returns.
    Grid(fn(&Hparams) -> Result<u64, ArchError>),
    /// The sum of the slabs of a matrix (out, slabs * patch) of patches over time; the function returns their number.
    SumSlabs(fn(&Hparams) -> u64),
    /// The rows of several source tensors, concatenated, for weight and bias. The sources and the function are
    /// those of [`RowRule::Fuse`]. The result appears if the last part was met.
    Append(fn(&Hparams) -> usize),
    /// Numbers of tensors of one element each as one vector; the function maps them. `hf` has the names of all. The result appears
    /// if the last one was met.
    Scalars(fn(&[f32]) -> Vec<f32>),
    /// Matrices with equally many rows, next to each other; `hf` has the names of all, from left to right. The result appears if
    /// the last one was met.
    SideBySide,
    /// The rows of a matrix at other places of a matrix of zeros.
    Scatter(ScatterOf),
    /// Integers of this type, each plus its position if the flag is set. They stand before or after all other
    /// tensors.
    Integers(IntegerRule),
    /// Values computed from the config if the source is present; the source's values are ignored. Another
    /// rule names the same tensor.
    Values(fn(&Hparams) -> Result<Vec<f32>, ArchError>),
}

/// A number that a config gives.
pub type CountOf = fn(&Hparams) -> Result<u64, ArchError>;

/// Places of the rows of a matrix, from the config.
pub type ScatterOf = fn(&Hparams) -> Result<Scatter, ArchError>;

/// Places of rows in a matrix of zeros.
#[derive(Debug, Clone)]
pub struct Scatter {
    /// The row of the result for each row of the source.
    pub rows: Vec<u64>,
    /// Number of rows of the result.
    pub n_rows: u64,
}

/// Form of a tensor of integers.
#[derive(Debug, Clone, Copy)]
pub struct IntegerRule {
    /// Its type in the file.
    pub dtype: DType,
    /// Vocabulary size, if each integer is a distance from its position and an id once its position is added.
    pub distances: Option<CountOf>,
    /// True if it precedes all other tensors, false if it follows them.
    pub first: bool,
}

/// Matrices of a tensor to transpose, from the config and the shape of the source.
pub type Transpose = fn(&Hparams, &Shape) -> Result<Transposed, ArchError>;

/// Parameters of a transposition.
#[derive(Debug, Clone, Copy)]
pub struct Transposed {
    /// Source rows that form a matrix.
    pub matrix: Matrix,
    /// Number of source rows of a matrix.
    pub rows: u64,
    /// Moves the rows of the result, which are the columns of the matrices.
    pub columns: RowMap,
}

/// The map of the elements of a tensor, from the config, the layer and the ending (`.weight`, `.bias`).
pub type ElementOf = fn(&Hparams, u64, &str) -> Result<ElementMap, ArchError>;

/// Another shape for the same elements, with its inverse. Dimensions are row length first.
#[derive(Debug, Clone, Copy)]
pub struct Reshape {
    /// The dimensions in the file, from those without this rule.
    pub forward: fn(&Hparams, &[u64]) -> Result<Vec<u64>, ArchError>,
    /// The dimensions in the checkpoint, from those in the file.
    pub inverse: fn(&[u64]) -> Vec<u64>,
}

/// A matrix with a dimension of one in the middle (kernels of convolutions of one channel each), without it.
pub const SQUEEZE_CHANNEL: Reshape = Reshape {
    forward: squeeze,
    inverse: |dims| match dims {
        [kernel, channels] => vec![*kernel, 1, *channels],
        other => other.to_vec(),
    },
};

/// A vector with two outer dimensions of one, without them.
pub const SQUEEZE_VECTOR: Reshape = Reshape { forward: squeeze, inverse: |dims| [dims, &[1, 1]].concat() };

/// A vector that may have dimensions of one in other releases, without them.
pub const SQUEEZE_ANY: Reshape = Reshape { forward: squeeze, inverse: <[u64]>::to_vec };

/// A vector as a column of rows of one element.
pub const COLUMN: Reshape = Reshape {
    forward: |_, dims| Ok([&[1], dims].concat()),
    inverse: |dims| dims.iter().skip(1).copied().collect(),
};

fn squeeze(_: &Hparams, dims: &[u64]) -> Result<Vec<u64>, ArchError> {
    Ok(dims.iter().copied().filter(|dim| *dim != 1).collect())
}

/// Rows of matrices that are stacked in the file and follow each other in a checkpoint.
pub fn flat_rows(dims: &[u64]) -> Vec<u64> {
    match dims {
        [row, outer @ ..] => vec![*row, outer.iter().fold(1, |product, dim| product.saturating_mul(*dim))],
        [] => Vec::new(),
    }
}

/// All elements as one vector.
pub fn flat(dims: &[u64]) -> Vec<u64> {
    vec![dims.iter().fold(1, |product, dim| product.saturating_mul(*dim))]
}

/// Rows that are taken, from the config and the shape of the source.
pub type Part = fn(&Hparams, &Shape) -> Result<RowMap, ArchError>;

/// Necessity of a tensor.
#[derive(Debug, Clone, Copy)]
pub enum Need {
    /// Needed.
    Always,
    /// Needed unless the config has experts.
    Dense,
    /// Needed if the config has experts.
    Experts,
    /// Needed in layers for which the function is true.
    If(fn(&Hparams, u64) -> bool),
    /// Never needed: no key says whether a checkpoint has it.
    Optional,
}

/// A tensor of one number, which the file has as a key: one tensor, or one in each layer, whose numbers the key has in
/// the order of the layers.
#[derive(Debug, Clone, Copy)]
pub struct NumberRule {
    /// Its name in the checkpoint, complete, with `{bid}` for the layer if each has one.
    pub hf: &'static str,
    /// The full key.
    pub key: &'static str,
    /// The dimensions that transformers gives it: one of 1, or none.
    pub dims: &'static [u64],
    /// The number, from the first element of a tensor of several.
    pub first: Option<NumberOf>,
}

/// A number, from the config and an element of a tensor.
pub type NumberOf = fn(&Hparams, f32) -> Result<f32, ArchError>;

impl NumberRule {
    /// A tensor of one number with a dimension of 1.
    pub const fn new(hf: &'static str, key: &'static str) -> NumberRule {
        NumberRule { hf, key, dims: &[1], first: None }
    }

    /// True if each layer has such a tensor.
    pub fn is_of_layers(&self) -> bool {
        self.hf.contains("{bid}")
    }
}

impl TensorRule {
    /// A row that copies and that the model needs.
    pub const fn copy(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
        TensorRule {
            hf,
            gguf,
            rows: RowRule::Copy,
            need: Need::Always,
            element: ElementMap::Identity,
            element_of: None,
            bare: None,
            shape: None,
            float: None,
            twin: None,
            layers: None,
        }
    }

    /// A row that takes a part, and that the model needs.
    pub const fn part(hf: &'static [&'static str], gguf: &'static str, part: Part) -> TensorRule {
        TensorRule::copy(hf, gguf).rows(RowRule::Part(part))
    }

    /// A row that stacks a matrix (f, in) of each of n experts to a tensor (n, f, in), and that the model needs.
    pub const fn stack(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
        TensorRule::copy(hf, gguf).rows(RowRule::StackExperts)
    }

    /// A row for a norm whose weight is stored as its distance from one.
    pub const fn norm1p(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
        TensorRule { element: ElementMap::AddOne, ..TensorRule::copy(hf, gguf) }
    }

    /// This row with another need.
    pub const fn need(self, need: Need) -> TensorRule {
        TensorRule { need, ..self }
    }

    /// A row that transposes, and that the model needs.
    pub const fn columns(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
        TensorRule::copy(hf, gguf).rows(RowRule::Columns(RowMap::Concat))
    }

    /// A row that transposes parts of the source, and that the model needs.
    pub const fn transposed(hf: &'static [&'static str], gguf: &'static str, turn: Transpose) -> TensorRule {
        TensorRule::copy(hf, gguf).rows(RowRule::Transposed(turn))
    }

    /// This row for names without an ending, and the ending in the file.
    pub const fn bare(self, ending: &'static str) -> TensorRule {
        TensorRule { bare: Some(ending), ..self }
    }

    /// This row, for a weight that has its own type in files of floats.
    pub const fn float(self, float: FloatType) -> TensorRule {
        TensorRule { float: Some(float), ..self }
    }

    /// This row with another shape.
    pub const fn shape(self, shape: Reshape) -> TensorRule {
        TensorRule { shape: Some(shape), ..self }
    }

    /// This row with something happening to each element.
    pub const fn element(self, element: ElementMap) -> TensorRule {
        TensorRule { element, ..self }
    }

    /// This row with something happening to each element that depends on config and layer.
    pub const fn element_of(self, element: ElementOf) -> TensorRule {
        TensorRule { element_of: Some(element), ..self }
    }

    /// This row, for a tensor that is left out if it equals another output tensor.
    pub const fn unless_equal(self, twin: &'static str) -> TensorRule {
        TensorRule { twin: Some(twin), ..self }
    }

    /// This row, for some layers only.
    pub const fn in_layers(self, layers: InLayers) -> TensorRule {
        TensorRule { layers: Some(layers), ..self }
    }

    /// True if the row applies to the layer.
    pub fn holds(&self, hparams: &Hparams, bid: u64) -> bool {
        self.layers.is_none_or(|holds| holds(hparams, bid))
    }

    /// The ending of the tensor that a model cannot do without.
    pub fn ending(&self) -> &'static str {
        self.bare.unwrap_or(".weight")
    }

    /// This row with something happening to its rows.
    pub const fn rows(self, rows: RowRule) -> TensorRule {
        TensorRule { rows, ..self }
    }

    /// True if a model with this config requires the tensor in a layer.
    pub fn needed(&self, hparams: &Hparams, n_experts: u64, bid: u64) -> bool {
        if !self.holds(hparams, bid) {
            return false;
        }
        match self.need {
            Need::If(needed) => needed(hparams, bid),
            Need::Always => true,
            Need::Dense => n_experts == 0,
            Need::Experts => n_experts > 0,
            Need::Optional => false,
        }
    }
}

/// Embedding, final norm and output of the decoders that name their parts as llama does. The
/// output is absent where it is tied to the embedding; if a tied checkpoint contains it all the
/// same, the reference writes it, and so do we.
pub const DECODER_ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.norm"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

/// [`DECODER_ENDS`], where norms are stored as their distance from one.
pub const NORM1P_ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::norm1p(&["model.norm"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

/// Norms before attention and before the feed-forward part.
pub const PRE_NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.ffn_norm"),
];

/// Separate Q, K, V and output projections whose rotary halves are stored apart, as Hugging Face
/// stores llama, and which llama.cpp wants interleaved.
pub const ATTENTION_PERMUTED: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q").rows(RowRule::PermuteQ),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k").rows(RowRule::PermuteK),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
];

/// Separate Q, K, V and output projections.
pub const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
];

/// Norms of queries and keys.
pub const QK_NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_norm"], "blk.{bid}.attn_q_norm"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_norm"], "blk.{bid}.attn_k_norm"),
];

/// Norms after attention and after the feed-forward part, of models without norms before.
pub const POST_NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.post_attention_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_feedforward_layernorm"], "blk.{bid}.post_ffw_norm"),
];

/// A feed-forward part without a gate.
pub const UNGATED_MLP: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.mlp.up_proj"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.layers.{bid}.mlp.down_proj"], "blk.{bid}.ffn_down"),
];

/// A feed-forward part whose gate and up matrices are one, and stay so.
pub const FUSED_MLP: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.mlp.gate_up_proj"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.layers.{bid}.mlp.down_proj"], "blk.{bid}.ffn_down"),
];

/// The mixture of experts of Qwen and others: a router, and three matrices an expert.
pub const QWEN_EXPERTS: &[TensorRule] = &qwen_experts(Need::Always);

/// [`QWEN_EXPERTS`], where some layers may lack them.
pub const fn qwen_experts(need: Need) -> [TensorRule; 4] {
    let [gate, up, down] = gate_up_down_experts(need);
    let router = TensorRule::copy(&["model.layers.{bid}.mlp.gate"], "blk.{bid}.ffn_gate_inp").need(need);
    [router, down, gate, up]
}

/// Only the matrices of experts.
pub const fn gate_up_down_experts(need: Need) -> [TensorRule; 3] {
    [
        TensorRule::stack(&["model.layers.{bid}.mlp.experts.{xid}.gate_proj"], "blk.{bid}.ffn_gate_exps")
            .need(need),
        TensorRule::stack(&["model.layers.{bid}.mlp.experts.{xid}.up_proj"], "blk.{bid}.ffn_up_exps")
            .need(need),
        TensorRule::stack(&["model.layers.{bid}.mlp.experts.{xid}.down_proj"], "blk.{bid}.ffn_down_exps")
            .need(need),
    ]
}

/// The experts of [`QWEN_EXPERTS`] as the classes of transformers 5 store them: stacked, gate before
/// up in one tensor. transformers takes them apart on saving, other programs do not.
pub const STACKED_EXPERTS: &[TensorRule] = &[
    TensorRule::copy(
        &["model.layers.{bid}.mlp.experts.down_proj", "model.layers.{bid}.mlp.experts.down_proj.weight"],
        "blk.{bid}.ffn_down_exps",
    )
    .bare(".weight")
    .need(Need::Optional),
    TensorRule::part(&[STACKED_GATE_UP, STACKED_GATE_UP_WEIGHT], "blk.{bid}.ffn_gate_exps", first_half)
        .bare(".weight")
        .need(Need::Optional),
    TensorRule::part(&[STACKED_GATE_UP, STACKED_GATE_UP_WEIGHT], "blk.{bid}.ffn_up_exps", second_half)
        .bare(".weight")
        .need(Need::Optional),
];

const STACKED_GATE_UP: &str = "model.layers.{bid}.mlp.experts.gate_up_proj";
const STACKED_GATE_UP_WEIGHT: &str = "model.layers.{bid}.mlp.experts.gate_up_proj.weight";

/// One expert that all tokens pass, of the name that DeepSeek and others give it.
pub const fn shared_experts(need: Need) -> [TensorRule; 3] {
    [
        TensorRule::copy(&["model.layers.{bid}.mlp.shared_experts.gate_proj"], "blk.{bid}.ffn_gate_shexp")
            .need(need),
        TensorRule::copy(&["model.layers.{bid}.mlp.shared_experts.up_proj"], "blk.{bid}.ffn_up_shexp")
            .need(need),
        TensorRule::copy(&["model.layers.{bid}.mlp.shared_experts.down_proj"], "blk.{bid}.ffn_down_shexp")
            .need(need),
    ]
}

/// A gated feed-forward part; absent in layers whose feed-forward part is a mixture.
pub const GATED_MLP: &[TensorRule] = &gated_mlp(Need::Dense);

/// [`GATED_MLP`], where only some layers have one.
pub const fn gated_mlp(need: Need) -> [TensorRule; 3] {
    [
        TensorRule::copy(&["model.layers.{bid}.mlp.gate_proj"], "blk.{bid}.ffn_gate").need(need),
        TensorRule::copy(&["model.layers.{bid}.mlp.up_proj"], "blk.{bid}.ffn_up").need(need),
        TensorRule::copy(&["model.layers.{bid}.mlp.down_proj"], "blk.{bid}.ffn_down").need(need),
    ]
}

/// The mixture of experts of Mixtral: a router, and w1 (gate), w2 (down), w3 (up) an expert.
pub const MIXTRAL_EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.block_sparse_moe.gate"], "blk.{bid}.ffn_gate_inp")
        .need(Need::Experts),
    TensorRule::stack(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.w1"], "blk.{bid}.ffn_gate_exps")
        .need(Need::Experts),
    TensorRule::stack(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.w2"], "blk.{bid}.ffn_down_exps")
        .need(Need::Experts),
    TensorRule::stack(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.w3"], "blk.{bid}.ffn_up_exps")
        .need(Need::Experts),
];

/// The first half of the rows; of each expert's rows if there are experts.
pub fn first_half(_: &Hparams, shape: &Shape) -> Result<RowMap, ArchError> {
    Ok(half(shape, 0))
}

/// The second half of the rows; of each expert's rows if there are experts.
pub fn second_half(_: &Hparams, shape: &Shape) -> Result<RowMap, ArchError> {
    Ok(half(shape, 1))
}

fn half(shape: &Shape, part: u64) -> RowMap {
    // Number of rows in one matrix. Experts have three dimensions; a bias has one, whose elements count as rows.
    let dims = shape.dims();
    let rows = dims.get(1).or(dims.first()).copied().unwrap_or(0) / 2;
    RowMap::Groups { group: rows * 2, start: rows * part, rows, n_head: 0 }
}

/// Fills a pattern in.
pub fn fill(pattern: &str, bid: u64, xid: u64) -> String {
    pattern.replace("{bid}", &bid.to_string()).replace("{xid}", &xid.to_string())
}

/// The layer and expert that `name` has under `pattern`, if it matches. Numbers are decimal
/// without leading zeros; if the pattern has no such place they are 0.
pub fn parse(pattern: &str, name: &str) -> Option<(u64, u64)> {
    let (mut bid, mut xid) = (0, 0);
    let mut rest = name;
    let mut pieces = pattern.split('{');
    rest = rest.strip_prefix(pieces.next()?)?;
    for piece in pieces {
        let (place, literal) = piece.split_once('}')?;
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        // `07` is not a layer: the names that `fill` makes have no leading zeros.
        if number.len() > 1 && number.starts_with('0') {
            return None;
        }
        let number = number.parse().ok()?;
        if place == "bid" {
            bid = number;
        } else {
            xid = number;
        }
        rest = after.strip_prefix(literal)?;
    }
    rest.is_empty().then_some((bid, xid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_accepts_only_filled_names() {
        let pattern = "model.layers.{bid}.moe.experts.{xid}.w1";
        for (bid, xid) in [(0, 0), (7, 10), (123, 4)] {
            assert_eq!(parse(pattern, &fill(pattern, bid, xid)), Some((bid, xid)));
        }
        for name in [
            "model.layers.07.moe.experts.1.w1",
            "model.layers..moe.experts.1.w1",
            "model.layers.1.moe.experts.1.w12",
            "model.layers.1.moe.experts.1",
            "xmodel.layers.1.moe.experts.1.w1",
            "model.layers.99999999999999999999999.moe.experts.1.w1",
        ] {
            assert_eq!(parse(pattern, name), None, "{name}");
        }
        assert_eq!(parse("lm_head", "lm_head"), Some((0, 0)));
        assert_eq!(parse("lm_head", "lm_head2"), None);
    }
}
