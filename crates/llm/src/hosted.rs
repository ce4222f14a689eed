//! A model behind HTTP, whatever its dialect: where it is, what is known of it, one per session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::Limits;
use futures_util::stream;
use reqwest::Url;

use crate::call::Call;
use crate::dialect::{Dialect, Extra, Extras};
use crate::http::{Http, Login};
use crate::memory::SharedMemory;
use crate::model::{ChunkStream, Model, ModelRequest, Preparation, Provider};
use crate::window::Window;

/// One model of one server.
pub(crate) struct Hosted {
    label: String,
    endpoint: Arc<Endpoint>,
}

/// Where requests go and with what.
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) login: Login,
    pub(crate) model: String,
    pub(crate) window: Window,
    pub(crate) dialect: Box<dyn Dialect>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) http: Arc<Http>,
    refused: RefusedExtras,
}

/// What this model has refused once; asking again would only cost a round trip each time.
#[derive(Default)]
struct RefusedExtras {
    thoughts: AtomicBool,
    tools: AtomicBool,
    images: AtomicBool,
    cache_key: AtomicBool,
    output_limit: AtomicBool,
}

/// What makes an endpoint, besides its dialect.
pub(crate) struct Place {
    pub(crate) url: Url,
    pub(crate) login: Login,
    /// The model's name.
    pub(crate) model: String,
    pub(crate) window: Window,
    pub(crate) limits: Arc<Limits>,
    pub(crate) http: Arc<Http>,
}

impl Hosted {
    /// The model at `place`, which speaks `dialect`.
    pub(crate) fn new(label: String, place: Place, dialect: impl Dialect + 'static) -> Self {
        let endpoint = Endpoint {
            url: place.url,
            login: place.login,
            window: place.window,
            model: place.model,
            dialect: Box::new(dialect),
            limits: place.limits,
            http: place.http,
            refused: RefusedExtras::default(),
        };
        Self {
            label,
            endpoint: Arc::new(endpoint),
        }
    }
}

impl Endpoint {
    /// What to ask for besides the conversation.
    pub(crate) fn extras(&self) -> Extras {
        Extras {
            thoughts: !self.refused.thoughts.load(Ordering::Relaxed),
            tools: !self.refused.tools.load(Ordering::Relaxed),
            images: !self.refused.images.load(Ordering::Relaxed),
            cache_key: !self.refused.cache_key.load(Ordering::Relaxed),
            output_limit: !self.refused.output_limit.load(Ordering::Relaxed),
        }
    }

    /// The server refused `extra`; it is not asked for again.
    pub(crate) fn refuse(&self, extra: Extra) {
        let refused = match extra {
            Extra::Thoughts => &self.refused.thoughts,
            Extra::Tools => &self.refused.tools,
            Extra::Images => &self.refused.images,
            Extra::CacheKey => &self.refused.cache_key,
            Extra::OutputLimit => &self.refused.output_limit,
        };
        refused.store(true, Ordering::Relaxed);
    }
}

impl Provider for Hosted {
    fn label(&self) -> &str {
        &self.label
    }

    fn open(&self) -> Box<dyn Model> {
        Box::new(HostedModel {
            endpoint: Arc::clone(&self.endpoint),
            memory: SharedMemory::default(),
        })
    }

    fn context_window(&self) -> u64 {
        self.endpoint.window.tokens()
    }
}

/// One session's model.
struct HostedModel {
    endpoint: Arc<Endpoint>,
    memory: SharedMemory,
}

impl Model for HostedModel {
    fn stream(&mut self, request: ModelRequest) -> ChunkStream {
        let call = Call::new(Arc::clone(&self.endpoint), self.memory.clone(), request);
        Box::pin(stream::unfold(Box::new(call), async |mut call| {
            let chunk = call.next().await?;
            Some((chunk, call))
        }))
    }

    fn prepare(&self) -> Preparation {
        let endpoint = Arc::clone(&self.endpoint);
        Box::pin(async move { endpoint.window.learn(&endpoint).await })
    }

    fn context_window(&self) -> u64 {
        self.endpoint.window.tokens()
    }

    fn may_write_calls(&self) -> bool {
        self.endpoint.dialect.may_write_calls()
    }

    fn input_tokens(&self, request: &ModelRequest) -> u64 {
        self.memory.lock().tokens(request.weight())
    }
}
