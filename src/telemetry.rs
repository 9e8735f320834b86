//! Evidence in, spans and metrics out; the only place that names OpenTelemetry.
