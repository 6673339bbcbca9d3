//! Memory for packed tiles of weights, which outlives single products.

use std::sync::{Mutex, PoisonError};

use gguf_products::{Right, integers::Weights};

/// Packed tiles that the weights of a file share. Allocating them for each product would cost time. They are freed with the last
/// weight of the file.
#[derive(Default)]
pub(crate) struct Tiles {
    /// Tiles of f32.
    pub floats: Kept<Right>,
    /// Tiles of integers.
    pub integers: Kept<Weights>,
}

/// Tiles of one kind, kept between products. Any thread may take them; a concurrent call finds none and makes its own.
pub(crate) struct Kept<P>(Mutex<Vec<P>>);

impl<P> Default for Kept<P> {
    fn default() -> Self {
        Kept(Mutex::default())
    }
}

impl<P> Kept<P> {
    /// Takes all tiles.
    pub fn take(&self) -> Vec<P> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps tiles for the next product.
    pub fn put(&self, tiles: Vec<P>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = tiles;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn tiles_are_reused_and_freed() {
        let tile = Arc::new(());
        let kept = Kept::default();
        kept.put(vec![Arc::clone(&tile)]);
        let taken = kept.take();
        assert_eq!((taken.len(), kept.take().len()), (1, 0));
        kept.put(taken);
        drop(kept);
        assert_eq!(Arc::strong_count(&tile), 1);
    }
}
