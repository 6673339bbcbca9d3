//! Division of pictures into tiles: the choice of a grid, and cutting.

use super::{
    picture::Picture,
    resample::{Filter, resize},
};
use crate::Error;

/// Maximum number of tiles of a picture, more than any model uses.
const MAX_TILES: usize = 256;

/// The grid of `least` to `most` square tiles, in (columns, rows), with the aspect ratio nearest to the picture's. Among equal ones,
/// the one with the most tiles whose area is less than twice the picture's, like in InternVL (`get_optimal_tiled_canvas` of
/// transformers).
pub fn nearest_grid(picture: &Picture, side: usize, least: usize, most: usize) -> (usize, usize) {
    let most = most.clamp(1, MAX_TILES);
    let (width, height) = (picture.width() as f64, picture.height() as f64);
    let mut grids: Vec<(usize, usize)> = (1..=most)
        .flat_map(|columns| (1..=most).map(move |rows| (columns, rows)))
        .filter(|(columns, rows)| (least..=most).contains(&(columns * rows)))
        .collect();
    // Stable: grids with the same number of tiles stay in the order of their columns.
    grids.sort_by_key(|(columns, rows)| columns * rows);
    let (mut best, mut best_difference) = ((1, 1), f64::INFINITY);
    for (columns, rows) in grids {
        let difference = (width / height - columns as f64 / rows as f64).abs();
        let area = (side * side * columns * rows) as f64;
        if difference < best_difference || (difference == best_difference && width * height > 0.5 * area) {
            (best, best_difference) = ((columns, rows), difference);
        }
    }
    best
}

/// The grid of at most `most` square tiles, in (columns, rows), into which a picture fits with the least enlargement, or else with
/// the least reduction. Among equal ones, the smallest, like in Llama 4 (`get_best_fit` of transformers).
pub fn least_scaled_grid(picture: &Picture, side: usize, most: usize) -> (usize, usize) {
    let most = most.clamp(1, MAX_TILES);
    let grids = (1..=most).flat_map(|rows| (1..=most).map(move |columns| (columns, rows)));
    let grids: Vec<(usize, usize)> = grids.filter(|(columns, rows)| columns * rows <= most).collect();
    // In single precision like in torch, because scales are compared for equality.
    let scale = |(columns, rows): (usize, usize)| {
        let across = (columns * side) as f32 / picture.width() as f32;
        let down = (rows * side) as f32 / picture.height() as f32;
        across.min(down)
    };
    let scales = || grids.iter().map(|grid| scale(*grid));
    let enlarging = scales().filter(|scale| *scale >= 1.0).reduce(f32::min);
    let best = enlarging.or_else(|| scales().reduce(f32::max)).unwrap_or(1.0);
    let suited = grids.iter().copied().filter(|grid| scale(*grid) == best);
    suited.min_by_key(|(columns, rows)| columns * rows).unwrap_or((1, 1))
}

/// Maximum number of tiles of a picture for at most `max_tokens` embeddings. Each tile, and the entire picture as one more tile, has
/// `per_side` squared embeddings.
pub fn within_tokens(max_tokens: Option<usize>, per_side: usize) -> usize {
    let per_tile = per_side.saturating_mul(per_side).max(1);
    max_tokens.map_or(MAX_TILES, |n| (n / per_tile).saturating_sub(1).max(1))
}

/// Resizes a picture to a grid of tiles, in (columns, rows), and cuts it row by row.
///
/// # Errors
/// [`Error::PictureSize`].
pub fn cut(
    picture: &Picture,
    side: usize,
    (columns, rows): (usize, usize),
    filter: Filter,
) -> Result<Vec<Picture>, Error> {
    let resized = resize(picture, (columns.saturating_mul(side), rows.saturating_mul(side)), filter)?;
    parts(&resized, side)
}

/// Cuts a picture of complete tiles row by row.
///
/// # Errors
/// [`Error::PictureSize`].
pub fn parts(picture: &Picture, side: usize) -> Result<Vec<Picture>, Error> {
    let (columns, rows) = (picture.width() / side, picture.height() / side);
    let tile = |i: usize| picture.part((i % columns * side, i / columns * side), (side, side));
    (0..columns * rows).map(tile).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Expected grids are those of `get_optimal_tiled_canvas` of transformers 5.23.
    #[test]
    fn grids_are_nearest_to_ratio() {
        let grid = |width: usize, height: usize| {
            let picture = Picture::new(width, height, vec![0; 3 * width * height]).unwrap();
            nearest_grid(&picture, 448, 1, 12)
        };
        assert_eq!(grid(45, 30), (3, 2));
        assert_eq!(grid(800, 600), (4, 3));
        assert_eq!(grid(1000, 1000), (3, 3));
        assert_eq!(grid(300, 1200), (1, 4));
        assert_eq!(grid(2000, 500), (4, 1));
        assert_eq!(grid(640, 427), (3, 2));
    }

    #[test]
    fn tiles_are_cut_row_by_row() {
        let pixels = (0..24).flat_map(|i| [i; 3]).collect();
        let picture = Picture::new(6, 4, pixels).unwrap();
        let tiles = parts(&picture, 2).unwrap();
        let first: Vec<u8> = tiles.iter().map(|tile| tile.pixels()[0]).collect();
        assert_eq!(first, [0, 2, 4, 12, 14, 16]);
    }
}
