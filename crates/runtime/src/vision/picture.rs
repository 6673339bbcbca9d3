//! Pictures: the bytes of a PNG or a JPEG file become pixels.
//!
//! As transformers reads them by Pillow: colours are eight bits, what is transparent shows its colour, greys are three equal
//! channels, and the orientation that a camera noted is applied. Colour profiles are left aside there and here.

use std::io::Cursor;

use zune_jpeg::{
    JpegDecoder,
    zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions},
};

use crate::Error;

/// The longest side of a picture in pixels.
const MAX_SIDE: usize = 1 << 15;

/// The most pixels of a picture: 200 MB as red, green and blue. Cameras of phones make 50 million.
const MAX_PIXELS: usize = 1 << 26;

/// Memory limit of the PNG reader in addition to the pixels, in bytes.
const PNG_BYTES: usize = 64 << 20;

/// A picture of eight bits a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    /// (height, width, 3): red, green and blue.
    pixels: Vec<u8>,
}

impl Picture {
    /// A picture of pixels: (height, width, 3), red, green and blue.
    ///
    /// # Errors
    /// [`Error::PictureSize`] for a picture that is empty or too large, [`Error::BrokenPicture`] for another number of pixels.
    pub fn new(width: usize, height: usize, pixels: Vec<u8>) -> Result<Picture, Error> {
        check_size(width, height)?;
        if pixels.len() != 3 * width * height {
            let problem = format!("{} bytes of pixels for {width} x {height}", pixels.len());
            return Err(Error::BrokenPicture { format: "RGB", problem });
        }
        Ok(Picture { width, height, pixels })
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// [`Error::NotAPicture`], [`Error::BrokenPicture`], [`Error::PictureSize`].
    pub fn read(bytes: &[u8]) -> Result<Picture, Error> {
        // The first bytes of a file tell its format, whatever its name.
        let (picture, orientation) = if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            png(bytes)?
        } else if bytes.starts_with(b"\xff\xd8\xff") {
            jpeg(bytes)?
        } else {
            return Err(Error::NotAPicture);
        };
        Ok(picture.turned(orientation))
    }

    /// Pixels of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Red, green and blue: (height, width, 3).
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The part of this size that begins at the pixel (x, y) and lies within the picture.
    pub fn part(&self, (x, y): (usize, usize), (width, height): (usize, usize)) -> Result<Picture, Error> {
        let rows = self.pixels.chunks_exact(3 * self.width).skip(y).take(height);
        let pixels = rows.flat_map(|row| &row[3 * x..3 * (x + width)]).copied().collect();
        Picture::new(width, height, pixels)
    }

    /// A picture of this size in one color with this picture at (x, y), within which it fits.
    pub fn within(
        &self,
        (width, height): (usize, usize),
        (x, y): (usize, usize),
        color: [u8; 3],
    ) -> Result<Picture, Error> {
        check_size(width, height)?;
        let mut pixels = color.repeat(width * height);
        let lines = pixels.chunks_exact_mut(3 * width).skip(y);
        for (to, from) in lines.zip(self.pixels.chunks_exact(3 * self.width)) {
            to[3 * x..3 * (x + self.width)].copy_from_slice(from);
        }
        Picture::new(width, height, pixels)
    }

    /// The picture as it is to be seen, of one of the eight orientations of Exif: 1 is as it is stored.
    fn turned(self, orientation: u16) -> Picture {
        let (w, h) = (self.width, self.height);
        // Orientations from 5 on lie on their side.
        let (width, height) = if (5..=8).contains(&orientation) { (h, w) } else { (w, h) };
        // Where the pixel (x, y) of the result comes from.
        let source = |x: usize, y: usize| match orientation {
            2 => (w - 1 - x, y),
            3 => (w - 1 - x, h - 1 - y),
            4 => (x, h - 1 - y),
            5 => (y, x),
            6 => (y, h - 1 - x),
            7 => (w - 1 - y, h - 1 - x),
            8 => (w - 1 - y, x),
            _ => (x, y),
        };
        if !(2..=8).contains(&orientation) {
            return self;
        }
        let mut pixels = Vec::with_capacity(self.pixels.len());
        for y in 0..height {
            for x in 0..width {
                let (from_x, from_y) = source(x, y);
                let at = 3 * (from_y * w + from_x);
                pixels.extend_from_slice(&self.pixels[at..at + 3]);
            }
        }
        Picture { width, height, pixels }
    }
}

/// Refuses sizes before anything is made for them: a header may claim any.
pub fn check_size(width: usize, height: usize) -> Result<(), Error> {
    let fits = |side: usize| (1..=MAX_SIDE).contains(&side);
    if fits(width) && fits(height) && width * height <= MAX_PIXELS {
        return Ok(());
    }
    Err(Error::PictureSize { width, height, max_side: MAX_SIDE, max_pixels: MAX_PIXELS })
}

/// A PNG file, and its orientation.
fn png(bytes: &[u8]) -> Result<(Picture, u16), Error> {
    let broken = |problem: String| Error::BrokenPicture { format: "PNG", problem };
    let failed = |error: png::DecodingError| broken(error.to_string());
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: PNG_BYTES });
    // Palettes and greys of fewer bits become complete bytes, of sixteen bits the upper ones stay.
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let header = decoder.read_header_info().map_err(failed)?;
    let (width, height) = (header.width as usize, header.height as usize);
    check_size(width, height)?;
    let mut reader = decoder.read_info().map_err(failed)?;
    // At most four channels of the size that was checked; pages that are not written to are never there.
    let len = reader.output_buffer_size().ok_or_else(|| broken("no size".to_owned()))?;
    let mut frame = vec![0; len];
    let info = reader.next_frame(&mut frame).map_err(failed)?;
    let n_channels = info.color_type.samples();
    let frame = &frame[..info.buffer_size()];
    let pixels: Vec<u8> = match n_channels {
        1 | 2 => frame.chunks_exact(n_channels).flat_map(|grey| [grey[0]; 3]).collect(),
        _ => frame.chunks_exact(n_channels).flat_map(|rgb| [rgb[0], rgb[1], rgb[2]]).collect(),
    };
    let orientation = reader.info().exif_metadata.as_deref().and_then(orientation);
    Ok((Picture::new(width, height, pixels)?, orientation.unwrap_or(1)))
}

/// A JPEG file, and its orientation.
fn jpeg(bytes: &[u8]) -> Result<(Picture, u16), Error> {
    let broken = |problem: String| Error::BrokenPicture { format: "JPEG", problem };
    // Without the strict mode what is missing at the end would be grey.
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(MAX_SIDE)
        .set_max_height(MAX_SIDE)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|error| broken(error.to_string()))?;
    let (width, height) = decoder.dimensions().ok_or_else(|| broken("no size".to_owned()))?;
    check_size(width, height)?;
    let pixels = decoder.decode().map_err(|error| broken(error.to_string()))?;
    let orientation = decoder.exif().and_then(|exif| orientation(exif));
    Ok((Picture::new(width, height, pixels)?, orientation.unwrap_or(1)))
}

/// The orientation that the first directory of Exif data states: a TIFF header, and entries of twelve bytes
///
/// ```text
/// tag u16 | type u16 | count u32 | value
/// ```
fn orientation(exif: &[u8]) -> Option<u16> {
    const ORIENTATION: u16 = 0x0112;
    const SHORT: u16 = 3;
    let is_little = match exif.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let short = |at: usize| -> Option<u16> {
        let bytes: [u8; 2] = exif.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let start: [u8; 4] = exif.get(4..8)?.try_into().ok()?;
    let start = if is_little { u32::from_le_bytes(start) } else { u32::from_be_bytes(start) } as usize;
    let entries = (0..short(start)?).map(|i| start.saturating_add(2 + 12 * usize::from(i)));
    for at in entries {
        if short(at)? == ORIENTATION && short(at.checked_add(2)?)? == SHORT {
            return short(at.checked_add(8)?);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three by two pixels of one value each, turned.
    fn turned(orientation: u16) -> (usize, usize, Vec<u8>) {
        let pixels = (1..=6).flat_map(|value| [value; 3]).collect();
        let picture = Picture::new(3, 2, pixels).unwrap().turned(orientation);
        (picture.width(), picture.height(), picture.pixels().iter().step_by(3).copied().collect())
    }

    #[test]
    fn orientations_match_exif() {
        // The first pixel that is stored is at: top left, top right, bottom right, bottom left; then on its side.
        assert_eq!(turned(1), (3, 2, vec![1, 2, 3, 4, 5, 6]));
        assert_eq!(turned(2), (3, 2, vec![3, 2, 1, 6, 5, 4]));
        assert_eq!(turned(3), (3, 2, vec![6, 5, 4, 3, 2, 1]));
        assert_eq!(turned(4), (3, 2, vec![4, 5, 6, 1, 2, 3]));
        assert_eq!(turned(5), (2, 3, vec![1, 4, 2, 5, 3, 6]));
        assert_eq!(turned(6), (2, 3, vec![4, 1, 5, 2, 6, 3]));
        assert_eq!(turned(7), (2, 3, vec![6, 3, 5, 2, 4, 1]));
        assert_eq!(turned(8), (2, 3, vec![3, 6, 2, 5, 1, 4]));
        assert_eq!(turned(9), turned(1));
    }

    #[test]
    fn exif_orientation_is_read_in_both_byte_orders() {
        let little = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        let big = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0\0\0\0\0";
        assert_eq!(orientation(little), Some(6));
        assert_eq!(orientation(big), Some(8));
        for n in 0..18 {
            assert_eq!(orientation(&little[..n]), None, "{n} bytes");
        }
        assert_eq!(orientation(b"II*\0\xff\xff\xff\xff"), None);
    }

    #[test]
    fn picture_sizes_are_bounded() {
        assert!(matches!(Picture::new(0, 1, vec![]), Err(Error::PictureSize { .. })));
        assert!(matches!(Picture::new(MAX_SIDE, MAX_SIDE, vec![]), Err(Error::PictureSize { .. })));
        assert!(matches!(Picture::new(2, 2, vec![0; 11]), Err(Error::BrokenPicture { .. })));
    }
}
