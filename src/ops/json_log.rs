//! The journal as JSON: one flat object per line, field names in lower case, numbers as numbers.
//!
//! One write call per line, so that a kill leaves whole lines. An event's own fields override those of enclosing spans. A
//! caller never fails: a line that cannot be written is lost.

use std::fmt;
use std::io::Write;

use serde::{Serialize, Serializer};
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Writes events as JSON lines.
pub struct JsonLayer<W> {
    writer: W,
}

impl<W> JsonLayer<W> {
    /// A layer that writes to whatever `writer` makes.
    pub fn new(writer: W) -> Self {
        Self { writer }
    }
}

/// Fields so far, in order of arrival; a later one of the same name replaces the first.
#[derive(Default, Clone)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.set(field.name(), value.into());
    }

    fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (Lower(name), value)))
    }
}

/// A name in lower case.
struct Lower<'a>(&'a str);

impl Serialize for Lower<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.bytes().any(|byte| byte.is_ascii_uppercase()) {
            serializer.serialize_str(&self.0.to_ascii_lowercase())
        } else {
            serializer.serialize_str(self.0)
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

impl<S, W> Layer<S> for JsonLayer<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_new_span(&self, attrs: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        if let Some(span) = ctx.span(id) {
            let mut fields = Fields::default();
            attrs.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        if let Some(span) = ctx.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let mut line = Fields::default();
        for span in
            ctx.event_scope(event).into_iter().flat_map(tracing_subscriber::registry::Scope::from_root)
        {
            if let Some(fields) = span.extensions().get::<Fields>() {
                fields.0.iter().for_each(|(name, value)| line.set(name, value.clone()));
            }
        }
        event.record(&mut line);
        let mut time = String::new();
        if SystemTime.format_time(&mut Writer::new(&mut time)).is_ok() {
            line.set("time", time.into());
        }
        line.set("level", event.metadata().level().as_str().to_ascii_lowercase().into());
        line.set("target", event.metadata().target().into());
        let Ok(mut text) = serde_json::to_vec(&line) else { return };
        text.push(b'\n');
        if self.writer.make_writer_for(event.metadata()).write_all(&text).is_err() {
            // No output is left to report this to.
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::ops::telemetry::EventName;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("lock").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn one_flat_object_a_line_with_lower_case_names() {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = tracing_subscriber::registry().with(JsonLayer::new(move || writer.clone()));
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("submission", submission_id = "s-1", attempt = 1);
            let _entered = span.enter();
            crate::journal!(info, EventName::BreakerClosed, SMTP_CODE = 250_u16, attempt = 2, "line\nbreak");
            tracing::warn!(reason = %"why", absent = None::<u8>, "second");
        });
        let text = String::from_utf8(buffer.0.lock().expect("lock").clone()).expect("utf-8");
        let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).expect("json")).collect();
        assert_eq!(lines.len(), 2, "{text}");
        let first = &lines[0];
        assert_eq!(first["event"], "breaker_closed");
        assert_eq!(first["smtp_code"], 250);
        assert_eq!(first["submission_id"], "s-1");
        assert_eq!(first["attempt"], 2, "the event's own field wins over its span's");
        assert_eq!(first["message"], "line\nbreak");
        assert_eq!(first["level"], "info");
        assert!(first["time"].as_str().expect("time").ends_with('Z'));
        assert_eq!(lines[1]["reason"], "why");
        assert_eq!(lines[1].get("absent"), None);
    }
}
