//! The tensors of a file: matrices that stay as they are stored, vectors decoded at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::{Arc, PoisonError, RwLock},
};

use gguf_container::{Adapter, AdapterPair, Endian, File, Mapped, TensorInfo};
use gguf_products::integers::BlockForm;
use gguf_quant::{CodecError, IntegerBlocks, IntegerForm, Level, decode_integers, integer_form};
use gguf_types::{DType, Shape};

use crate::{Error, tiles::Tiles};

/// Replacement for the blocks of a file, little-endian.
#[derive(Debug)]
pub struct Replaced {
    pub dtype: DType,
    pub row_bytes: usize,
    pub bytes: Vec<u8>,
}

/// Shared slot for replacement blocks of one tensor. A graph contains its weights in several places, some twice
/// (an embedding that is also the output matrix), so they share a slot that the model can reach.
pub type Slot = Arc<RwLock<Option<Replaced>>>;

/// A matrix in its stored form, or a stack of matrices (one for each expert).
#[derive(Clone)]
pub struct Weight {
    /// The name in the file.
    pub name: String,
    /// Length of a row: elements of an input.
    pub n_in: usize,
    /// Rows of one matrix: elements of an output.
    pub n_out: usize,
    /// Matrices in the stack.
    pub n_stack: usize,
    /// True if each matrix of the stack belongs to a head, not to an expert.
    pub is_by_head: bool,
    dtype: DType,
    row_bytes: usize,
    endian: Endian,
    bytes: Mapped,
    at: Range<usize>,
    slot: Slot,
    tiles: Arc<Tiles>,
    /// Factor of all products with this matrix (`NAME.scale`, for NVFP4), applied when rows are decoded. Stacks of experts apply
    /// theirs themselves.
    scale: Option<f32>,
    /// Pairs of adapters.
    low_rank: Arc<[LowRank]>,
}

/// A pair of an adapter: `s (B @ A)` is added to a matrix W (n_out, n_in), or to each matrix of a stack.
#[derive(Clone)]
pub struct LowRank {
    /// A (rank, n_in); for an embedding (n_vocab, rank).
    pub a: Weight,
    /// B (n_out, rank); for an embedding (n_embd, rank).
    pub b: Weight,
    /// s.
    pub scale: f32,
    /// True if A has a row for each token: the pair changes only the rows that are looked up.
    pub is_embedding: bool,
}

impl LowRank {
    fn new(pair: AdapterPair<'_>, scale: f32, tiles: &Arc<Tiles>) -> Result<LowRank, Error> {
        let half = |(file, info): (&File, &TensorInfo)| {
            let [n_in, n_out, n_stack] = [0, 1, 2].map(|i| info.shape.dim(i) as usize);
            Weight::new(file, info, [n_in, n_out, n_stack], Arc::default(), tiles)
        };
        Ok(LowRank {
            a: half(pair.a)?,
            b: half(pair.b)?,
            scale: (f64::from(scale) * pair.scale) as f32,
            is_embedding: pair.is_embedding,
        })
    }
}

impl Weight {
    /// A tensor of `n_stack` matrices (n_out, n_in).
    fn new(
        file: &File,
        info: &TensorInfo,
        [n_in, n_out, n_stack]: [usize; 3],
        slot: Slot,
        tiles: &Arc<Tiles>,
    ) -> Result<Weight, Error> {
        // Checked here once, so that decoding in the kernels cannot fail.
        if gguf_quant::codec(info.dtype).is_none() {
            return Err(Error::TensorType { name: info.name.clone(), dtype: info.dtype });
        }
        // Inside the file: a header may say anything, and kernels read without asking again.
        let at = file.range(info)?;
        // Rows of all matrices of the stack are consecutive and are equally long in every format.
        let row_bytes = at.len() / (n_out * n_stack).max(1);
        Ok(Weight {
            name: info.name.clone(),
            n_in,
            n_out,
            n_stack,
            is_by_head: false,
            dtype: info.dtype,
            row_bytes,
            endian: file.endian(),
            bytes: file.bytes().clone(),
            at,
            slot,
            tiles: Arc::clone(tiles),
            scale: None,
            low_rank: Arc::default(),
        })
    }

    /// The rows of a matrix as a stack of `n` matrices, of heads or groups.
    pub fn divided(self, n: usize) -> Weight {
        Weight { n_out: self.n_out / n, n_stack: n, is_by_head: true, ..self }
    }

    /// Pairs of adapters that change products with this matrix.
    pub fn low_rank(&self) -> impl Iterator<Item = &LowRank> {
        self.low_rank.iter().filter(|pair| !pair.is_embedding)
    }

    /// Pairs of adapters that change the rows that are looked up in this matrix.
    pub fn low_rank_rows(&self) -> impl Iterator<Item = &LowRank> {
        self.low_rank.iter().filter(|pair| pair.is_embedding)
    }

    /// Memory for packed tiles that the weights of the file share.
    pub(crate) fn tiles(&self) -> &Tiles {
        &self.tiles
    }

    /// The type that the reference rounds activations to before it multiplies them with this; `None` if it takes
    /// them as they are.
    pub fn activation_dtype(&self) -> Option<DType> {
        self.dtype_now().activation_dtype()
    }

    /// Integer block form of the rows; `None` for other types.
    pub fn block_form(&self) -> Option<BlockForm> {
        if self.scale.is_some() {
            return None;
        }
        let form = integer_form(self.dtype_now())?;
        let n = |elems: Option<usize>| elems.map_or(0, |elems| form.block_elems / elems);
        let (n_minima, n_scales) = (n(form.min_elems), n(form.scale_elems));
        let IntegerForm { block_elems: elems, offset, max_level, .. } = form;
        Some(BlockForm { elems, n_minima, n_scales, offset, max_level })
    }

    /// Takes rows apart, counted over the entire stack, of a weight that has a form.
    pub fn take_apart(
        &self,
        level: Level,
        rows: Range<usize>,
        out: IntegerBlocks<'_>,
    ) -> Result<(), CodecError> {
        self.with_blocks(rows, |dtype, blocks| decode_integers(dtype, level, blocks, out))
    }

    /// Decodes rows, counted over the entire stack, into `out`: (rows, n_in) f32, row-major.
    pub fn decode(&self, level: Level, rows: Range<usize>, out: &mut [f32]) -> Result<(), CodecError> {
        self.with_blocks(rows, |dtype, blocks| gguf_quant::decode(dtype, level, blocks, out))?;
        if let Some(scale) = self.scale {
            out.iter_mut().for_each(|value| *value *= scale);
        }
        Ok(())
    }

    /// Decodes one row: (n_in).
    ///
    /// # Panics
    /// Panics if the row is out of range.
    pub fn row(&self, row: usize) -> Vec<f32> {
        let mut out = vec![0.0; self.n_in];
        self.decode(Level::detect(), row..row + 1, &mut out).expect("a weight of a checked type decodes");
        out
    }

    /// The type of its blocks: that of the file, or of what stands in their place.
    fn dtype_now(&self) -> DType {
        let replaced = self.slot.read().unwrap_or_else(PoisonError::into_inner);
        replaced.as_ref().map_or(self.dtype, |replaced| replaced.dtype)
    }

    /// Hands out the blocks of rows, little-endian, with their type: those of the file, or what stands in their place.
    pub fn with_blocks<R>(&self, rows: Range<usize>, work: impl FnOnce(DType, &[u8]) -> R) -> R {
        // One lock per tile of many rows: nothing writes while a model runs.
        if let Some(replaced) = &*self.slot.read().unwrap_or_else(PoisonError::into_inner) {
            let bytes = &replaced.bytes[rows.start * replaced.row_bytes..rows.end * replaced.row_bytes];
            return work(replaced.dtype, bytes);
        }
        let start = self.at.start + rows.start * self.row_bytes;
        let bytes = &self.bytes[start..start + rows.len() * self.row_bytes];
        work(self.dtype, &self.endian.to_little(self.dtype, bytes))
    }
}

/// The tensors of a file, and which ones the graph uses.
pub struct Weights<'a> {
    file: &'a gguf_container::Model,
    /// Adapters with their scales.
    adapters: &'a [(Adapter, f32)],
    /// Tensors that the graph took, and those that it knows and ignores.
    known: BTreeSet<String>,
    /// Tensors that were decoded completely: no rows are multiplied with them.
    decoded: BTreeSet<String>,
    /// Slot of each matrix that the graph took.
    slots: BTreeMap<String, Slot>,
    /// Memory that its matrices share.
    tiles: Arc<Tiles>,
}

/// A graph's use of the tensors of a file.
pub struct InUse {
    /// Tensors that were decoded completely.
    pub decoded: BTreeSet<String>,
    /// Slots for replacing the blocks of each matrix.
    pub slots: BTreeMap<String, Slot>,
}

impl<'a> Weights<'a> {
    /// The tensors of a file.
    pub fn new(file: &'a gguf_container::Model) -> Self {
        Weights {
            file,
            adapters: &[],
            known: BTreeSet::new(),
            decoded: BTreeSet::new(),
            slots: BTreeMap::new(),
            tiles: Arc::default(),
        }
    }

    /// Like this, with adapters, which must belong to the model.
    pub fn with_adapters(self, adapters: &'a [(Adapter, f32)]) -> Self {
        Weights { adapters, ..self }
    }

    /// Tensors of the file.
    pub fn n_tensors(&self) -> usize {
        self.file.tensors().count()
    }

    /// Elements of the longest row of any tensor: a bound for widths that only keys state.
    pub fn longest_row(&self) -> usize {
        let rows = self.file.tensors().map(|(_, info)| info.shape.row_elems());
        rows.max().map_or(0, |longest| usize::try_from(longest).unwrap_or(usize::MAX))
    }

    /// The shape of a tensor, if there is one of this name. Asking does not count as a use.
    pub fn shape(&self, name: &str) -> Option<Shape> {
        self.file.tensor(name).map(|(_, info)| info.shape)
    }

    /// True if the file has any tensor of layer `i`.
    pub fn has_layer(&self, i: usize) -> bool {
        self.file.tensors().any(|(_, info)| layer_of(&info.name) == Some(i))
    }

    /// A matrix of the file with rows of `n_in` elements and any number of rows, if the file has it.
    pub fn matrix_of_any_rows(&mut self, name: &str, n_in: usize) -> Result<Option<Weight>, Error> {
        let n_out = self.shape(name).map_or(0, |shape| shape.dim(1) as usize);
        self.matrix(name, n_in, n_out)
    }

    /// The matrix `(n_in, n_out)`, if there is one of this name.
    pub fn matrix(&mut self, name: &str, n_in: usize, n_out: usize) -> Result<Option<Weight>, Error> {
        self.stack(name, n_in, n_out, 1)
    }

    /// The matrix `(n_in, n_out)`.
    pub fn need_matrix(&mut self, name: &str, n_in: usize, n_out: usize) -> Result<Weight, Error> {
        self.matrix(name, n_in, n_out)?.ok_or_else(|| Error::MissingTensor { name: name.to_owned() })
    }

    /// The stack of `n_stack` matrices `(n_in, n_out)`, if there is one of this name.
    pub fn stack(
        &mut self,
        name: &str,
        n_in: usize,
        n_out: usize,
        n_stack: usize,
    ) -> Result<Option<Weight>, Error> {
        let Some((file, info)) = self.file.tensor(name) else { return Ok(None) };
        self.known.insert(name.to_owned());
        // GGUF names the row length first: a matrix W (n_out, n_in) has the dimensions [n_in, n_out].
        let expected = [n_in as u64, n_out as u64, n_stack as u64, 1];
        if !info.shape.matches(&expected) {
            let expected = if n_stack == 1 { format!("[{n_in}, {n_out}]") } else { format!("{expected:?}") };
            return Err(Error::TensorShape { name: name.to_owned(), expected, found: info.shape });
        }
        let slot = Arc::clone(self.slots.entry(name.to_owned()).or_default());
        let mut weight = Weight::new(file, info, [n_in, n_out, n_stack], slot, &self.tiles)?;
        weight.scale = self.scale(name, n_stack)?;
        let mut low_rank = Vec::new();
        for (adapter, scale) in self.adapters {
            let failed = |error| Error::Adapter { path: adapter.path().to_owned(), error };
            if let Some(pair) = adapter.pair(name, info.shape).map_err(failed)? {
                low_rank.push(LowRank::new(pair, *scale, &self.tiles)?);
            }
        }
        weight.low_rank = low_rank.into();
        Ok(Some(weight))
    }

    /// The scale of a matrix, if the file has one. The scale of its inputs only matters for products in 4 bits.
    fn scale(&mut self, name: &str, n_stack: usize) -> Result<Option<f32>, Error> {
        let Some(matrix) = name.strip_suffix(".weight") else { return Ok(None) };
        if !gguf_container::may_have_scale(matrix) {
            return Ok(None);
        }
        self.ignore(&format!("{matrix}.input_scale"));
        if n_stack > 1 {
            return Ok(None);
        }
        let scale = self.vector(&format!("{matrix}.scale"), 1)?;
        Ok(scale.and_then(|scale| scale.first().copied()).filter(|scale| *scale != 1.0))
    }

    /// All elements of a small tensor in f32, whatever its shape, if there is one of this name.
    pub fn vector(&mut self, name: &str, n: usize) -> Result<Option<Vec<f32>>, Error> {
        let Some((file, info)) = self.file.tensor(name) else { return Ok(None) };
        self.known.insert(name.to_owned());
        self.decoded.insert(name.to_owned());
        if info.shape.n_elems() != n as u64 {
            let expected = format!("{n} elements");
            return Err(Error::TensorShape { name: name.to_owned(), expected, found: info.shape });
        }
        let mut values = vec![0.0; n];
        let blocks = file.endian().to_little(info.dtype, file.data(info)?);
        gguf_quant::decode(info.dtype, Level::detect(), &blocks, &mut values)
            .map_err(|_| Error::TensorType { name: name.to_owned(), dtype: info.dtype })?;
        Ok(Some(values))
    }

    /// All elements of a tensor of 32-bit integers, if there is one of this name.
    pub fn integers(&mut self, name: &str, n: usize) -> Result<Option<Vec<i32>>, Error> {
        let Some((file, info)) = self.file.tensor(name) else { return Ok(None) };
        self.known.insert(name.to_owned());
        self.decoded.insert(name.to_owned());
        if info.dtype != DType::I32 {
            return Err(Error::TensorType { name: name.to_owned(), dtype: info.dtype });
        }
        if info.shape.n_elems() != n as u64 {
            let expected = format!("{n} elements");
            return Err(Error::TensorShape { name: name.to_owned(), expected, found: info.shape });
        }
        let bytes = file.endian().to_little(info.dtype, file.data(info)?);
        let values = bytes.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes));
        Ok(Some(values.collect()))
    }

    /// All `n` elements of a tensor of 64-bit integers, if there is one of this name.
    ///
    /// # Errors
    /// [`Error::TensorType`], [`Error::TensorShape`], [`Error::Gguf`].
    pub fn long_integers(&mut self, name: &str, n: usize) -> Result<Option<Vec<i64>>, Error> {
        let Some((file, info)) = self.file.tensor(name) else { return Ok(None) };
        self.known.insert(name.to_owned());
        self.decoded.insert(name.to_owned());
        if info.dtype != DType::I64 {
            return Err(Error::TensorType { name: name.to_owned(), dtype: info.dtype });
        }
        if info.shape.n_elems() != n as u64 {
            let expected = format!("{n} elements");
            return Err(Error::TensorShape { name: name.to_owned(), expected, found: info.shape });
        }
        let bytes = file.endian().to_little(info.dtype, file.data(info)?);
        let values = bytes.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
        Ok(Some(values.collect()))
    }

    /// All elements of a small tensor in f32, whatever its shape.
    pub fn need_vector(&mut self, name: &str, n: usize) -> Result<Vec<f32>, Error> {
        self.vector(name, n)?.ok_or_else(|| Error::MissingTensor { name: name.to_owned() })
    }

    /// States that the graph knows this tensor and has no use for it.
    pub fn ignore(&mut self, name: &str) {
        self.known.insert(name.to_owned());
    }

    /// Like this, for all tensors of the layers from `first` to before `end`.
    pub fn ignore_layers(&mut self, first: usize, end: usize) {
        let names = self.file.tensors().map(|(_, info)| &info.name);
        let ignored = names.filter(|name| layer_of(name).is_some_and(|layer| (first..end).contains(&layer)));
        self.known.extend(ignored.cloned());
    }

    /// Like this, for all tensors whose names satisfy a condition.
    pub fn ignore_where(&mut self, is_ignored: impl Fn(&str) -> bool) {
        let names = self.file.tensors().map(|(_, info)| &info.name);
        let ignored = names.filter(|name| is_ignored(name));
        self.known.extend(ignored.cloned());
    }

    /// Refuses a file with tensors that the graph does not know, so that nothing is passed over in silence.
    pub fn check_all_known(self, architecture: &str) -> Result<InUse, Error> {
        let all = self.file.tensors().map(|(_, info)| &info.name);
        let names: Vec<String> = all.filter(|name| !self.known.contains(*name)).cloned().collect();
        if !names.is_empty() {
            return Err(Error::UnusedTensors { architecture: architecture.to_owned(), names });
        }
        for (adapter, _) in self.adapters {
            // Decoded tensors are not multiplied, so their pairs would have no effect. Pairs of ignored layers are accepted.
            let names: Vec<String> =
                adapter.targets().filter(|name| self.decoded.contains(*name)).map(str::to_owned).collect();
            if !names.is_empty() {
                let path = adapter.path().to_owned();
                return Err(Error::Adapter { path, error: gguf_container::Error::AdapterTargets { names } });
            }
        }
        Ok(InUse { decoded: self.decoded, slots: self.slots })
    }
}

/// The layer that a tensor belongs to, by its name.
fn layer_of(name: &str) -> Option<usize> {
    gguf_types::layer_and_part(name).map(|(layer, _)| layer as usize)
}
