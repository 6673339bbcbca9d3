//! Prompts with images and sounds: reads the files, computes their embeddings, and places these among the tokens.

use std::{
    fs::File,
    io::Read,
    ops::Range,
    path::{Path, PathBuf},
};

use gguf_runtime::{
    Model, Piece,
    audio::Sound,
    vision::{Picture, Projector, TileEmbedding},
};

use super::{GenerateOptions, RunOptions};
use crate::{
    error::Error,
    events::Events,
    input_kind::{self, Wanted},
};
use gguf_types::words;

/// Placeholder of an image or a sound in a prompt, as in llama.cpp's `llama-mtmd-cli`.
const PLACE: &str = "<__media__>";

/// Maximum size of an image file in bytes, larger than any camera's.
const MAX_IMAGE_BYTES: u64 = 256 << 20;

/// Maximum size of an audio file in bytes: 46 minutes of 32-bit stereo at 48 kHz.
const MAX_AUDIO_BYTES: u64 = 1 << 30;

/// Kinds of media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Image,
    Audio,
}

impl Kind {
    const ALL: [Kind; 2] = [Kind::Image, Kind::Audio];

    /// Placeholder of this kind.
    fn place(self) -> &'static str {
        match self {
            Kind::Image => "<__image__>",
            Kind::Audio => "<__audio__>",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Image => "image",
            Kind::Audio => "audio",
        }
    }
}

/// Images and sounds, ready for a prompt.
pub(super) struct Media {
    projector: Projector,
    /// Tiles of each image.
    images: Vec<Vec<TileEmbedding>>,
    /// Sounds, as one tile each.
    sounds: Vec<Vec<TileEmbedding>>,
}

/// Parts of a prompt: tokens, and the kind of medium whose tile is between each and the next.
pub(super) struct Pieces {
    tokens: Vec<Vec<u32>>,
    kinds: Vec<Kind>,
}

impl Pieces {
    /// A prompt without media.
    pub fn new(tokens: Vec<u32>) -> Pieces {
        Pieces { tokens: vec![tokens], kinds: Vec::new() }
    }

    /// Its tokens, without media.
    pub fn into_tokens(self) -> Vec<u32> {
        self.tokens.concat()
    }

    /// Tokens and media in turn.
    pub fn pieces<'a>(&'a self, media: Option<&'a Media>) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        let [mut images, mut sounds] =
            Kind::ALL.map(|kind| media.map_or(&[][..], |media| media.of(kind)).iter().flatten());
        for (i, tokens) in self.tokens.iter().enumerate() {
            if !tokens.is_empty() {
                pieces.push(Piece::Tokens(tokens));
            }
            let next = self.kinds.get(i).and_then(|kind| match kind {
                Kind::Image => images.next(),
                Kind::Audio => sounds.next(),
            });
            pieces.extend(next.map(|tile| Piece::Picture(&tile.embedding)));
        }
        pieces
    }
}

impl Media {
    /// Opens the projector of `options` for a model, and computes the embeddings of the images and sounds; `None` without a projector.
    ///
    /// # Errors
    /// A projector, image or sound that cannot be read.
    pub fn open(
        model: &Model,
        options: &GenerateOptions,
        run: &RunOptions,
        events: &dyn Events,
    ) -> Result<Option<Media>, Error> {
        let Some(mmproj) = &options.mmproj else { return Ok(None) };
        let projector = Projector::open(mmproj, &run.of_runtime())
            .map_err(|error| input_kind::explained(mmproj, Wanted::Projector, Error::at(mmproj, error)))?;
        projector.check_fits(model).map_err(|error| Error::at(mmproj, error))?;
        if !options.images.is_empty() {
            projector.check_vision().map_err(|error| Error::at(mmproj, error))?;
            warn_of_marks(model, projector.marks(), events);
        }
        if !options.audio.is_empty() {
            projector.check_audio().map_err(|error| Error::at(mmproj, error))?;
            warn_of_marks(model, projector.sound_marks(), events);
        }
        let image = |path: &PathBuf| {
            let bytes = read(path, MAX_IMAGE_BYTES, Kind::Image)?;
            let picture = Picture::read(&bytes).map_err(|error| Error::at(path, error))?;
            projector.embed(&picture, options.image_tokens).map_err(|error| Error::at(path, error))
        };
        let images = options.images.iter().map(image).collect::<Result<Vec<_>, _>>()?;
        let sound = |path: &PathBuf| {
            let bytes = read(path, MAX_AUDIO_BYTES, Kind::Audio)?;
            let sound = Sound::read(bytes).map_err(|error| Error::at(path, error))?;
            if let Some(limit) = projector.max_seconds().filter(|limit| sound.seconds() > *limit) {
                let (path, seconds) = (path.display(), (100.0 * sound.seconds()).round() / 100.0);
                events.warning(format!("{path}: the model uses the first {limit} of {seconds} seconds"));
            }
            let embedding = projector.embed_sound(&sound).map_err(|error| Error::at(path, error))?;
            Ok(vec![TileEmbedding { before: String::new(), embedding, after: String::new() }])
        };
        let sounds = options.audio.iter().map(sound).collect::<Result<Vec<_>, Error>>()?;
        Ok(Some(Media { projector, images, sounds }))
    }

    fn of(&self, kind: Kind) -> &[Vec<TileEmbedding>] {
        match kind {
            Kind::Image => &self.images,
            Kind::Audio => &self.sounds,
        }
    }

    /// Placeholders in a text with their kinds, in order. `<__media__>` is a placeholder of the only kind of medium in the options.
    ///
    /// # Errors
    /// `<__media__>` with images and sounds.
    fn places(&self, text: &str) -> Result<Vec<(Range<usize>, Kind)>, Error> {
        let only = match (self.images.is_empty(), self.sounds.is_empty()) {
            (false, false) => None,
            (true, false) => Some(Kind::Audio),
            _ => Some(Kind::Image),
        };
        let any = text.match_indices(PLACE).map(|(at, place)| (at..at + place.len(), only));
        let typed = Kind::ALL.into_iter().flat_map(|kind| {
            text.match_indices(kind.place()).map(move |(at, place)| (at..at + place.len(), Some(kind)))
        });
        let mut places: Vec<_> = any.chain(typed).collect();
        places.sort_by_key(|(at, _)| at.start);
        let kind = |(at, kind): (Range<usize>, Option<Kind>)| match kind {
            Some(kind) => Ok((at, kind)),
            None => Err(Error::usage(format_args!("`{PLACE}` is ambiguous with images and audio"))
                .hint(["use `<__image__>` and `<__audio__>`"])),
        };
        places.into_iter().map(kind).collect()
    }

    /// The prompt with a placeholder for each image and sound, added at the start if it has none: images, then sounds.
    ///
    /// # Errors
    /// A prompt whose number of placeholders differs from that of the images or sounds.
    pub fn with_places(&self, prompt: &str) -> Result<String, Error> {
        let places = self.places(prompt)?;
        if places.is_empty() {
            let added = Kind::ALL.map(|kind| kind.place().repeat(self.of(kind).len())).concat();
            return Ok(added + prompt);
        }
        for kind in Kind::ALL {
            let found = places.iter().filter(|(_, own)| *own == kind).count();
            let (expected, name) = (self.of(kind).len(), kind.name());
            if found != expected {
                let is_mixed = !self.images.is_empty() && !self.sounds.is_empty();
                let place = if is_mixed { kind.place() } else { PLACE };
                return Err(Error::usage(format_args!(
                    "expected {expected} {name} placeholders (`{place}`) in the prompt, found {found}"
                )));
            }
        }
        Ok(prompt.to_owned())
    }

    /// Tokens before, between and after the tiles of all images and sounds, with the texts around them.
    ///
    /// # Errors
    /// A template that drops or duplicates placeholders; an error of the tokenizer.
    pub fn tokens(&self, file: &Path, model: &Model, text: &str, begins: bool) -> Result<Pieces, Error> {
        let places = self.places(text)?;
        for kind in Kind::ALL {
            let found = places.iter().filter(|(_, own)| *own == kind).count();
            let (expected, name) = (self.of(kind).len(), kind.name());
            if found != expected {
                let problem =
                    format!("`tokenizer.chat_template` keeps {found} of {expected} {name} placeholders");
                return Err(
                    Error::at(file, problem).hint([words!("omit [-chat] to pass the prompt unchanged")])
                );
            }
        }
        let marks = |kind: Kind| match kind {
            Kind::Image => self.projector.marks(),
            Kind::Audio => self.projector.sound_marks(),
        };
        // Marks are tokenized with the text around them: adjacent spaces become one token.
        let (mut last, mut texts, mut kinds, mut start) = (String::new(), Vec::new(), Vec::new(), 0);
        let [mut images, mut sounds] = Kind::ALL.map(|kind| self.of(kind).iter());
        for (at, kind) in places {
            let (begin, end) = marks(kind);
            last += &text[start..at.start];
            last += begin;
            let medium = match kind {
                Kind::Image => images.next(),
                Kind::Audio => sounds.next(),
            };
            for tile in medium.into_iter().flatten() {
                last += &tile.before;
                texts.push(std::mem::replace(&mut last, tile.after.clone()));
                kinds.push(kind);
            }
            last += end;
            start = at.end;
        }
        last += &text[start..];
        texts.push(last);
        let tokens = texts.iter().enumerate().map(|(i, text)| {
            if i > 0 && text.is_empty() {
                Ok(Vec::new())
            } else {
                model.tokenizer().encode(text, i == 0 && begins, true)
            }
        });
        let tokens = tokens.collect::<Result<_, _>>().map_err(|error| Error::at(file, error))?;
        Ok(Pieces { tokens, kinds })
    }
}

/// Warns of marks that are missing in the vocabulary. They would be tokenized as ordinary text, unlike in training.
fn warn_of_marks(model: &Model, (begin, end): (&str, &str), events: &dyn Events) {
    for mark in [begin.trim(), end.trim()].into_iter().filter(|mark| !mark.is_empty()) {
        let ids = model.tokenizer().encode(mark, false, true).unwrap_or_default();
        if !ids.iter().any(|id| model.tokenizer().token_text(*id) == Some(mark.as_bytes())) {
            events.warning(format!(
                "missing token `{mark}` in the vocabulary; the projector may belong to another model"
            ));
        }
    }
}

/// The bytes of a file.
fn read(path: &Path, max_bytes: u64, kind: Kind) -> Result<Vec<u8>, Error> {
    let file = File::open(path).map_err(|error| Error::cannot_open(path, error))?;
    let mut bytes = Vec::new();
    let read = file.take(max_bytes + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::cannot_open(path, error))?;
    if bytes.len() as u64 > max_bytes {
        let (name, limit) = (kind.name(), max_bytes >> 20);
        return Err(Error::at(path, format_args!("the {name} file exceeds the limit of {limit} MiB")));
    }
    Ok(bytes)
}
