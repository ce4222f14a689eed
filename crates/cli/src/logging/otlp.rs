//! Traces of turns, model calls and tool runs, sent to an OpenTelemetry collector over HTTP.
//!
//! Only with the feature `otlp`, and only if `OTEL_EXPORTER_OTLP_ENDPOINT` says where to. The
//! exporter reads that and its other settings from the environment by itself.

use anyhow::Context as _;
use domain::TraceParent;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::level_filters::LevelFilter;
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use super::OURS;
use crate::settings::Environment;

/// The variables of which one must be set for anything to be sent.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
];

/// What sends. Dropping it sends what is left.
pub(crate) struct Sending(SdkTracerProvider);

impl Drop for Sending {
    fn drop(&mut self) {
        // A collector that does not answer must not keep the program from ending well.
        let _ = self.0.shutdown();
    }
}

/// Starts sending, if the environment says where to.
///
/// # Errors
/// If the exporter cannot use its settings.
pub(super) fn start(environment: &Environment) -> anyhow::Result<Option<Sending>> {
    if !ENDPOINTS
        .iter()
        .any(|name| environment.value(name).is_some())
    {
        return Ok(None);
    }
    // The exporter's own client asks for a provider even if it never speaks TLS. One that is
    // already there is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let exporter = SpanExporter::builder()
        .with_http()
        .build()
        .context("traces cannot be sent with these OTEL_ settings")?;
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder()
        .with_service_name("fastness")
        .with_attribute(version)
        .build();
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource)
        .build();
    session::adopt_traces_with(adopt);
    Ok(Some(Sending(provider)))
}

/// Our own spans, whatever the level of the log.
pub(super) fn layer<S>(sending: &Sending) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let ours = OURS.iter().map(|name| (*name, LevelFilter::INFO));
    tracing_opentelemetry::layer()
        .with_tracer(sending.0.tracer("fastness"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(Targets::new().with_targets(ours))
}

/// Makes a turn part of its caller's trace.
fn adopt(turn: &Span, parent: TraceParent) {
    let flags = if parent.is_sampled {
        TraceFlags::SAMPLED
    } else {
        TraceFlags::default()
    };
    let caller = SpanContext::new(
        TraceId::from(parent.id().0),
        SpanId::from(parent.span),
        flags,
        true,
        TraceState::default(),
    );
    // A span that nobody records has no parent either.
    let _ = turn.set_parent(Context::new().with_remote_span_context(caller));
}
