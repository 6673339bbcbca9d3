//! A file that runs: tokens, prompts, logits, embeddings and scores. Text is in [`crate::stream`].

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
};

use gguf_toolkit::{
    Chat, ChatOptions, ChatSession, ChatSessionOptions, EmbedOptions, Error, Events, GenerateOptions,
    RunOptions, ScoreOptions, TaskFile, TokenizeOptions,
    run::{Embedding, recommended_sampling},
};
use numpy::PyArray2;
use pyo3::{exceptions::PyValueError, prelude::*, types::PyBytes};

use crate::{
    calls::parsed,
    errors::Raised as _,
    events::Shared,
    stream::{Prompt, TextStream},
    values,
    work::{OnStop, run},
};

/// A GGUF file that is ready to run.
#[pyclass(frozen, module = "gguf_tools._native")]
pub struct Model {
    inner: Arc<gguf_toolkit::Model>,
}

/// A chat of several turns.
#[pyclass(frozen, module = "gguf_tools._native")]
pub struct Session {
    model: Arc<gguf_toolkit::Model>,
    inner: Arc<Mutex<ChatSession<Arc<gguf_toolkit::Model>>>>,
}

#[pymethods]
impl Session {
    /// The text that answers a message.
    fn ask(&self, message: String) -> PyResult<TextStream> {
        let prompt = Prompt::Turn(Arc::clone(&self.inner), message);
        TextStream::start(Arc::clone(&self.model), prompt, GenerateOptions::default())
    }

    /// Forgets all messages except the system message.
    fn reset(&self, py: Python<'_>) {
        py.detach(|| self.inner.lock().unwrap_or_else(PoisonError::into_inner).reset());
    }

    /// Replaces the system message.
    fn set_system(&self, py: Python<'_>, system: Option<String>) {
        py.detach(|| self.inner.lock().unwrap_or_else(PoisonError::into_inner).set_system(system));
    }
}

/// Method of pooling, and an array for each text.
type Embedded<'py> = (&'static str, Vec<Bound<'py, PyArray2<f32>>>);

#[pymethods]
impl Model {
    /// Opens a file.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, options: &str) -> PyResult<Model> {
        let options: RunOptions = parsed(options)?;
        let model = run(py, None, OnStop::Leave, move |shared: &Shared| {
            gguf_toolkit::Model::open_with(&path, &options, shared)
        })?;
        Ok(Model { inner: Arc::new(model) })
    }

    /// The metadata keys in the order of the file.
    fn keys(&self) -> Vec<&str> {
        values::keys(self.inner.metadata())
    }

    /// The value of a key.
    fn value<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        values::of_key(py, self.inner.metadata(), key)
    }

    fn architecture(&self) -> &str {
        self.inner.architecture()
    }

    fn n_vocab(&self) -> usize {
        self.inner.n_vocab()
    }

    fn context_length(&self) -> Option<usize> {
        self.inner.context_length()
    }

    /// Names of the scores of a reranker.
    fn labels(&self) -> Vec<String> {
        self.inner.labels().to_vec()
    }

    /// Token ids of a text.
    fn tokenize(&self, py: Python<'_>, text: &[u8], options: &str) -> PyResult<Vec<u32>> {
        let options: TokenizeOptions = parsed(options)?;
        py.detach(|| self.inner.tokenize(text, &options)).raised(py)
    }

    /// The bytes of tokens.
    fn detokenize<'py>(&self, py: Python<'py>, tokens: Vec<u32>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.inner.detokenize(&tokens).raised(py)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// True if a text starts with the BOS token.
    fn starts_with_bos(&self, text: &str) -> bool {
        self.inner.starts_with_bos(text)
    }

    /// The prompt of messages, which are JSON.
    fn apply_chat_template(&self, py: Python<'_>, messages: &str, options: &str) -> PyResult<String> {
        let chat = Chat::parse(messages).map_err(PyValueError::new_err)?;
        let options: ChatOptions = parsed(options)?;
        py.detach(|| self.inner.apply_chat_template(&chat, &options)).raised(py)
    }

    /// (n_tokens, n_vocab) f32.
    fn logits<'py>(&self, py: Python<'py>, tokens: Vec<u32>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let model = Arc::clone(&self.inner);
        let logits = run(py, None, OnStop::Leave, move |_| model.logits(&tokens))?;
        Ok(PyArray2::from_owned_array(py, logits))
    }

    /// Vectors of texts, in order.
    fn embed<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<String>,
        options: &str,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Embedded<'py>> {
        let options: EmbedOptions = parsed(options)?;
        let model = Arc::clone(&self.inner);
        let (pooling, vectors) = run(py, progress, OnStop::Leave, move |shared: &Shared| {
            let cancel = shared.cancel();
            let line = shared.status_line();
            let mut vectors = Vec::with_capacity(texts.len());
            let mut keep = |index: usize, embedding: Embedding| {
                if cancel.load(Ordering::Relaxed) {
                    return Err(Error::interrupted());
                }
                vectors.push(embedding.vectors);
                line.count(index + 1, texts.len());
                Ok(())
            };
            model.embed_each(&texts, &options, &mut keep, shared)?;
            Ok((model.pooling(&options)?, vectors))
        })?;
        let arrays = vectors.into_iter().map(|vectors| PyArray2::from_owned_array(py, vectors));
        Ok((pooling.name(), arrays.collect()))
    }

    /// Accuracy on tasks as JSON.
    fn score(&self, py: Python<'_>, options: &str, progress: Option<Py<PyAny>>) -> PyResult<String> {
        let options: ScoreOptions = parsed(options)?;
        let model = Arc::clone(&self.inner);
        run(py, progress, OnStop::Leave, move |shared: &Shared| {
            let scored = model.score(&TaskFile::open(&options, shared)?, shared)?;
            Ok(serde_json::to_string(&scored)?)
        })
    }

    /// The sampling that the file recommends for chats, as JSON.
    fn recommended_sampling(&self) -> PyResult<String> {
        let sampling = recommended_sampling(self.inner.metadata());
        serde_json::to_string(&sampling).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// A chat of several turns.
    fn chat(&self, py: Python<'_>, options: &str) -> PyResult<Session> {
        let (options, model): (ChatSessionOptions, _) = (parsed(options)?, Arc::clone(&self.inner));
        let inner =
            run(py, None, OnStop::Leave, move |shared: &Shared| ChatSession::new(model, &options, shared))?;
        Ok(Session { model: Arc::clone(&self.inner), inner: Arc::new(Mutex::new(inner)) })
    }

    /// Text that follows a prompt or, with options of a chat, answers messages, which are JSON.
    fn generate(
        &self,
        py: Python<'_>,
        prompt: String,
        chat: Option<&str>,
        options: &str,
    ) -> PyResult<TextStream> {
        let options: GenerateOptions = parsed(options)?;
        options.check().raised(py)?;
        let prompt = match chat {
            None => Prompt::Text(prompt),
            Some(template) => {
                let chat = Chat::parse(&prompt).map_err(PyValueError::new_err)?;
                Prompt::Chat(Box::new(chat), parsed(template)?)
            }
        };
        TextStream::start(Arc::clone(&self.inner), prompt, options)
    }
}
