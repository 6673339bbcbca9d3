//! Sounds: a WAV, FLAC or MP3 file becomes samples of one channel.
//!
//! Channels are averaged, like in librosa's `to_mono`. Integers are divided by their largest magnitude, so that samples are
//! in the range -1 to 1.

use std::io::Cursor;

use symphonia::core::{
    codecs::audio::AudioDecoderOptions,
    errors::Error as Failure,
    formats::{FormatOptions, TrackType, probe::Hint},
    io::MediaSourceStream,
    meta::MetadataOptions,
};

use crate::Error;

/// Length limit in seconds.
const MAX_SECONDS: usize = 3600;

/// Length limit in samples per channel: 512 MiB of f32, or 46 minutes at 48 kHz.
const MAX_SAMPLES: usize = 1 << 27;

/// Maximum number of channels of a WAV file.
const MAX_CHANNELS: u16 = 256;

/// Supported sample rates in Hz.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=768_000;

/// A sound of one channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Sound {
    rate: u32,
    samples: Vec<f32>,
}

impl Sound {
    /// A sound of samples, usually in the range -1 to 1, at a rate in Hz.
    ///
    /// # Errors
    /// [`Error::SoundLength`] for a sound that is too long; [`Error::BrokenSound`] for a sound without samples, a rate outside of
    /// 1 kHz to 768 kHz, and samples that are not finite.
    pub fn new(rate: u32, samples: Vec<f32>) -> Result<Sound, Error> {
        let broken = |problem: String| Error::BrokenSound { format: "PCM", problem };
        check_rate(rate).map_err(broken)?;
        check_length(rate, samples.len())?;
        if samples.is_empty() {
            return Err(broken("no samples".to_owned()));
        }
        if samples.iter().any(|sample| !sample.is_finite()) {
            return Err(broken("samples that are not finite".to_owned()));
        }
        Ok(Sound { rate, samples })
    }

    /// Decodes the bytes of a WAV, FLAC or MP3 file.
    ///
    /// # Errors
    /// [`Error::NotASound`], [`Error::BrokenSound`], [`Error::SoundLength`].
    pub fn read(bytes: Vec<u8>) -> Result<Sound, Error> {
        let format = format_of(&bytes).ok_or(Error::NotASound)?;
        let (rate, samples) = decode(bytes, format).map_err(|stop| match stop {
            Stop::Broken(problem) => Error::BrokenSound { format, problem },
            Stop::Refused(error) => error,
        })?;
        let named = |error| match error {
            Error::BrokenSound { problem, .. } => Error::BrokenSound { format, problem },
            error => error,
        };
        Sound::new(rate, samples).map_err(named)
    }

    /// Samples per second.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// The samples.
    pub fn samples(&self) -> &[f32] {
        &self.samples
    }

    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.samples.len() as f64 / f64::from(self.rate)
    }
}

/// Reasons to stop decoding.
enum Stop {
    Broken(String),
    Refused(Error),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Broken(failure.to_string())
    }
}

fn check_rate(rate: u32) -> Result<(), String> {
    if RATES.contains(&rate) {
        Ok(())
    } else {
        Err(format!("sample rate of {rate} Hz, expected {} to {} Hz", RATES.start(), RATES.end()))
    }
}

/// Fails for more samples than the limits allow.
fn check_length(rate: u32, n_samples: usize) -> Result<(), Error> {
    // Less than 2^32 with a rate of 768 kHz at most.
    let max_samples = MAX_SAMPLES.min(MAX_SECONDS * rate as usize);
    if n_samples <= max_samples {
        Ok(())
    } else {
        Err(Error::SoundLength { max_seconds: max_samples / rate.max(1) as usize })
    }
}

/// Format by the first bytes of a file.
fn format_of(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Some("WAV"),
        [b'f', b'L', b'a', b'C', ..] => Some("FLAC"),
        [b'I', b'D', b'3', ..] => Some("MP3"),
        // Eleven bits of synchronization, and layer III.
        [0xff, second, ..] if second & 0xe6 == 0xe2 => Some("MP3"),
        _ => None,
    }
}

/// Makes the header of a WAV file safe for symphonia's reader.
///
/// The reader multiplies the number of channels by the bytes of a sample in 16 bits, so a number of channels that no file has is
/// refused. Programs that write to a pipe state the length 2^32 - 1, which is replaced by the length of the file.
fn check_header(wav: &mut [u8]) -> Result<(), String> {
    let data = data_chunk(wav);
    let header = &wav[..data.unwrap_or(wav.len())];
    let formats = header.windows(12).filter(|chunk| chunk.starts_with(b"fmt "));
    // After the name: length (u32), format (u16), channels (u16).
    let most = formats.map(|chunk| u16::from_le_bytes([chunk[10], chunk[11]])).max();
    if let Some(n) = most.filter(|n| *n > MAX_CHANNELS) {
        return Err(format!("{n} channels, expected at most {MAX_CHANNELS}"));
    }
    for start in [Some(0), data].into_iter().flatten() {
        let rest = wav.len().saturating_sub(start + 8) as u32;
        if let Some(length) = wav.get_mut(start + 4..start + 8).filter(|length| length == &[0xff; 4]) {
            length.copy_from_slice(&rest.to_le_bytes());
        }
    }
    Ok(())
}

/// Position of the chunk `data` of a WAV file, whose chunks have a name, a length (u32) and bytes, padded to an even number.
fn data_chunk(wav: &[u8]) -> Option<usize> {
    let mut at = 12usize;
    loop {
        let chunk = wav.get(at..at.checked_add(8)?)?;
        if chunk.starts_with(b"data") {
            return Some(at);
        }
        let length = u32::from_le_bytes([chunk[4], chunk[5], chunk[6], chunk[7]]) as usize;
        at = at.checked_add(8)?.checked_add(length)?.checked_add(length % 2)?;
    }
}

/// Decodes a file: sample rate, and samples averaged over channels.
fn decode(mut bytes: Vec<u8>, format: &'static str) -> Result<(u32, Vec<f32>), Stop> {
    if format == "WAV" {
        check_header(&mut bytes).map_err(Stop::Broken)?;
    }
    let stream = MediaSourceStream::new(Box::new(Cursor::new(bytes)), Default::default());
    let mut hint = Hint::new();
    hint.with_extension(&format.to_lowercase());
    let mut reader = symphonia::default::get_probe().probe(
        &hint,
        stream,
        FormatOptions::default(),
        MetadataOptions::default(),
    )?;
    let missing = |part: &str| Stop::Broken(format!("no {part}"));
    let track = reader.default_track(TrackType::Audio).ok_or_else(|| missing("audio track"))?;
    let (track_id, n_stated) = (track.id, track.num_frames);
    let params = track.codec_params.as_ref().and_then(|params| params.audio());
    let params = params.ok_or_else(|| missing("codec parameters"))?;
    let mut decoder =
        symphonia::default::get_codecs().make_audio_decoder(params, &AudioDecoderOptions::default())?;
    let (mut rate, mut samples) = (None, Vec::new());
    let mut interleaved: Vec<f32> = Vec::new();
    while let Some(packet) = reader.next_packet()? {
        if packet.track_id != track_id {
            continue;
        }
        let decoded = decoder.decode(&packet)?;
        let spec = decoded.spec();
        let (own, n_channels) = (spec.rate(), spec.channels().count());
        // Each frame of MP3 and FLAC states its sample rate.
        if *rate.get_or_insert(own) != own {
            return Err(Stop::Broken("the sample rate changes".to_owned()));
        }
        check_rate(own).map_err(Stop::Broken)?;
        check_length(own, samples.len() + decoded.frames()).map_err(Stop::Refused)?;
        if n_channels == 0 {
            return Err(missing("channels"));
        }
        decoded.copy_to_vec_interleaved(&mut interleaved);
        let mean = |frame: &[f32]| frame.iter().sum::<f32>() / n_channels as f32;
        samples.extend(interleaved.chunks_exact(n_channels).map(mean));
    }
    // The number that an MP3 file states may be an estimate.
    if format != "MP3" && n_stated.is_some_and(|n| (samples.len() as u64) < n) {
        return Err(Stop::Broken(format!("{} of {} samples", samples.len(), n_stated.unwrap_or(0))));
    }
    let rate = rate.ok_or_else(|| missing("samples"))?;
    Ok((rate, samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sounds_have_limits() {
        assert!(matches!(Sound::new(16_000, vec![]), Err(Error::BrokenSound { .. })));
        assert!(matches!(Sound::new(10, vec![0.0]), Err(Error::BrokenSound { .. })));
        assert!(matches!(Sound::new(16_000, vec![f32::NAN]), Err(Error::BrokenSound { .. })));
        let error = Sound::new(1_000, vec![0.0; 3_600_001]).unwrap_err();
        assert!(matches!(error, Error::SoundLength { max_seconds: 3600 }), "{error}");
        assert!(matches!(Sound::read(b"OggS".to_vec()), Err(Error::NotASound)));
        assert!(matches!(Sound::read(b"fLaC".to_vec()), Err(Error::BrokenSound { .. })));
    }
}
