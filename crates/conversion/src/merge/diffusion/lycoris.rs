//! LoHa and LoKr: the matrices of a module in the file, and the change that they are.
//!
//! A matrix is a tensor of the file, or a pair `a @ b`. With a core (Tucker decomposition, for kernels), a is transposed.
//!
//! Source: `create_adapter_parameters` in `tuners/loha/layer.py` and `tuners/lokr/layer.py` of peft 0.21.2;
//! `lycoris/modules/loha.py` and `lokr.py` of lycoris-lora 4.1.3, whose names PEFT shares.

use gguf_checkpoint::Tensor;

use super::{
    super::{
        MergeError,
        error::shape_error,
        low_rank::{Change, Factor},
    },
    parts::Module,
    patched::{is_kernel, matrix_columns, reshaped},
    products::{Kronecker, Product},
};

/// A LoHa, or a LoKr.
#[derive(Debug)]
pub(super) struct Lycoris<'a> {
    is_kronecker: bool,
    matrices: [Matrix<'a>; 2],
}

#[derive(Debug, Clone, Copy)]
enum Matrix<'a> {
    Whole(&'a Tensor),
    /// (n_rows, rank) and (rank, n_columns), or (rank, n_rows), (rank, inputs) and a core (rank, rank, kernel).
    Pair {
        left: &'a Tensor,
        right: &'a Tensor,
        core: Option<&'a Tensor>,
    },
}

impl<'a> Lycoris<'a> {
    /// The LoHa or LoKr of a module, if it has one.
    ///
    /// # Errors
    /// [`MergeError::Missing`], [`MergeError::Unknown`], and [`MergeError::Kind`] for one with magnitudes.
    pub(super) fn of(module: &Module<'a>) -> Result<Option<Lycoris<'a>>, MergeError> {
        let Some((first, tensor)) = module.factors.first() else { return Ok(None) };
        if module.magnitude.is_some() {
            let kind = "a LoHa or LoKr with magnitudes (DoRA)";
            return Err(MergeError::Kind { tensor: tensor.name.clone(), kind });
        }
        let is_kronecker = first.starts_with("lokr_");
        let names = if is_kronecker {
            [
                [Some("lokr_w1"), Some("lokr_w1_a"), Some("lokr_w1_b"), None],
                [Some("lokr_w2"), Some("lokr_w2_a"), Some("lokr_w2_b"), Some("lokr_t2")],
            ]
        } else {
            let names = |w1, w2, t| [None, Some(w1), Some(w2), Some(t)];
            [names("hada_w1_a", "hada_w1_b", "hada_t1"), names("hada_w2_a", "hada_w2_b", "hada_t2")]
        };
        let others: Vec<String> = module
            .factors
            .iter()
            .filter(|(name, _)| !names.iter().flatten().any(|known| known.as_ref() == Some(name)))
            .map(|(_, tensor)| tensor.name.clone())
            .collect();
        if !others.is_empty() {
            return Err(MergeError::Unknown { names: others });
        }
        let matrices = [Matrix::of(module, names[0])?, Matrix::of(module, names[1])?];
        // Both halves of a LoHa have a core, or neither.
        if let ([Some(with), None] | [None, Some(with)], false) = (matrices.map(Matrix::core), is_kronecker) {
            let (from, to) = if with.name.ends_with('1') { ("_t1", "_t2") } else { ("_t2", "_t1") };
            return Err(MergeError::Missing { names: vec![with.name.replace(from, to)] });
        }
        Ok(Some(Lycoris { is_kronecker, matrices }))
    }

    /// A tensor whose first dimension is the rank of the pairs; `None` without pairs.
    pub(super) fn ranked(&self) -> Option<&'a Tensor> {
        let right = |matrix: &Matrix<'a>| match matrix {
            Matrix::Whole(_) => None,
            Matrix::Pair { right, .. } => Some(*right),
        };
        self.matrices.iter().find_map(right)
    }

    /// Checks that the matrices fit `target` and `n_outputs` rows of a module. Returns the change of `n_rows` rows from row
    /// `offset` of the module on.
    ///
    /// # Errors
    /// [`MergeError::Shape`].
    pub(super) fn product(
        &self,
        target: &Tensor,
        n_outputs: u64,
        scale: f32,
    ) -> Result<impl Fn(u64, u64) -> Product, MergeError> {
        let n_columns = matrix_columns(target);
        let [left, right] = &self.matrices;
        let sizes = left.size().zip(right.size()).filter(|([a, c], [b, d])| {
            if self.is_kronecker {
                a.checked_mul(*b) == Some(n_outputs) && c.checked_mul(*d) == Some(n_columns)
            } else {
                [[a, c], [b, d]] == [[&n_outputs, &n_columns]; 2]
            }
        });
        // The left matrix of a LoKr has no kernel.
        let has_kernel = |matrix: &Matrix<'_>, kernel: &[u64]| {
            let own = matrix.kernel();
            own.is_empty() || is_kernel(own, kernel)
        };
        let kernel = target.shape.get(2..).unwrap_or_default();
        let fits =
            has_kernel(left, if self.is_kronecker { &[] } else { kernel }) && has_kernel(right, kernel);
        let pairs = self.matrices.iter().filter_map(|matrix| matrix.rank());
        let is_one_rank = pairs.clone().min() == pairs.max();
        let Some((left_size, right_size)) = sizes.filter(|_| fits && is_one_rank) else {
            let kind = if self.is_kronecker { "a Kronecker" } else { "an elementwise" };
            let expected = format!("factors of one rank, with {kind} product ({n_outputs}, {n_columns})");
            return Err(shape_error(left.first(), &expected, target));
        };
        let (is_kronecker, matrices) = (self.is_kronecker, self.matrices);
        Ok(move |offset: u64, n_rows: u64| {
            if is_kronecker {
                let [left, right] =
                    [(0, left_size), (1, right_size)].map(|(at, [n_rows, _])| matrices[at].change(0, n_rows));
                Product::Kronecker(Kronecker { left, right, right_shape: right_size, offset, scale })
            } else {
                let factors = matrices.map(|matrix| matrix.change(offset, n_rows));
                Product::Hadamard { factors, scale }
            }
        })
    }
}

impl<'a> Matrix<'a> {
    /// The matrix with these names: a tensor, both halves of a pair, a core.
    fn of(module: &Module<'a>, names: [Option<&str>; 4]) -> Result<Matrix<'a>, MergeError> {
        let [whole, left, right, core] = names.map(|name| name.and_then(|name| module.factor(name)));
        match (whole, left, right) {
            (Some(whole), None, None) if core.is_none() => Ok(Matrix::Whole(whole)),
            (Some(_), ..) => {
                let more = [left, right, core].into_iter().flatten();
                Err(MergeError::Unknown { names: more.map(|tensor| tensor.name.clone()).collect() })
            }
            (None, Some(left), Some(right)) => Ok(Matrix::Pair { left, right, core }),
            (None, ..) => {
                let missing =
                    [(left, names[1]), (right, names[2])].into_iter().filter(|(half, _)| half.is_none());
                let name =
                    |(_, name): (_, Option<&str>)| format!("{}.{}", module.name, name.unwrap_or_default());
                Err(MergeError::Missing { names: missing.map(name).collect() })
            }
        }
    }

    fn core(self) -> Option<&'a Tensor> {
        match self {
            Matrix::Pair { core, .. } => core,
            Matrix::Whole(_) => None,
        }
    }

    fn first(self) -> &'a Tensor {
        match self {
            Matrix::Whole(tensor) | Matrix::Pair { left: tensor, .. } => tensor,
        }
    }

    fn rank(self) -> Option<u64> {
        match self {
            Matrix::Whole(_) => None,
            Matrix::Pair { right, .. } => right.shape.first().copied(),
        }
    }

    /// Rows and columns, if the shapes of the tensors fit each other.
    fn size(self) -> Option<[u64; 2]> {
        match self {
            Matrix::Whole(tensor) => {
                (tensor.shape.len() >= 2).then(|| [tensor.shape[0], matrix_columns(tensor)])
            }
            Matrix::Pair { left, right, core: None } => {
                let [n_rows, rank] = *left.shape.first_chunk()?;
                let is_pair =
                    right.shape.len() >= 2 && right.shape[0] == rank && matrix_columns(left) == rank;
                is_pair.then(|| [n_rows, matrix_columns(right)])
            }
            Matrix::Pair { left, right, core: Some(core) } => {
                let (&[rank, n_rows], &[right_rank, inputs]) = (&left.shape[..], &right.shape[..]) else {
                    return None;
                };
                let (ranks, kernel) = core.shape.split_at_checked(2)?;
                let n_columns = inputs.checked_mul(kernel.iter().product())?;
                (ranks == [rank; 2] && right_rank == rank).then_some([n_rows, n_columns])
            }
        }
    }

    /// Sizes of the kernel, if the tensors state them.
    fn kernel(self) -> &'a [u64] {
        let tensor = match self {
            Matrix::Whole(tensor) | Matrix::Pair { core: Some(tensor), .. } => tensor,
            Matrix::Pair { right, .. } => right,
        };
        tensor.shape.get(2..).unwrap_or_default()
    }

    /// Rows from `offset` on, as a change by the matrix itself. Its size was checked.
    fn change(self, offset: u64, n_rows: u64) -> Change {
        let as_matrix = |tensor: &Tensor| reshaped(tensor, vec![tensor.shape[0], matrix_columns(tensor)]);
        match self {
            Matrix::Whole(tensor) => Change::Matrix { values: as_matrix(tensor) },
            Matrix::Pair { left, right, core } => Change::LowRank {
                left: Factor { offset, ..Factor::whole(&as_matrix(left), core.is_some()) },
                right: Factor {
                    core: core.map(as_matrix).map(Box::new),
                    ..Factor::whole(&as_matrix(right), true)
                },
                rank: right.shape[0] as usize,
                scale: 1.0,
                matrix_rows: n_rows,
            },
        }
    }
}
