//! `bootstrap`: the executable that Lambda starts. It serves the handler that `_HANDLER` names.

use dues_lambda::{Clients, Env, Function, Handle, clients, env, log, start};
use dues_store::SystemClock;
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use serde_json::Value;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Mutex;

/// How long a finished response has to be sent after SIGTERM.
const LAST_WORDS: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            tracing::error!(%why, "cannot go on");
            // On standard error too: the log may not exist yet, and the report of a failed init shows this.
            eprintln!("bootstrap: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), lambda_runtime::Error> {
    let env = Env::of_process();
    let function = Function::named(&env.get("_HANDLER").unwrap_or_default())?;
    log::install(function.name(), env.get(env::NAMESPACE).unwrap_or_else(|| "dues".to_owned()));
    let clients = Clients::new(&env, clients::https())?;
    let handle = start(function, &env, &clients, SystemClock::shared())?;
    // An environment has at most one core unless it is configured for more: threads would only take turns.
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(serve(handle))
}

/// Serves until SIGTERM. Lambda sends it between invocations, and only where an extension is installed. From
/// any other sender it may arrive during an invocation, which is then finished first.
async fn serve(handle: Handle) -> Result<(), lambda_runtime::Error> {
    let busy = Arc::new(Mutex::new(()));
    let working = busy.clone();
    let serving = lambda_runtime::run(service_fn(move |event: LambdaEvent<Value>| {
        let (handle, working) = (handle.clone(), working.clone());
        async move {
            let _at_work = working.lock().await;
            log::set_request(&event.context.request_id);
            handle(event.payload).await.map_err(|why| {
                tracing::error!(%why, failed = 1_u64, "the invocation failed");
                Diagnostic { error_type: "Failed".to_owned(), error_message: why.to_string() }
            })
        }
    }));
    let mut end = signal(SignalKind::terminate())?;
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        ended = &mut serving => return ended,
        _ = end.recv() => tracing::info!("asked to end"),
    }
    let idle = async {
        let _idle = busy.lock().await;
        tokio::time::sleep(LAST_WORDS).await;
    };
    tokio::select! {
        ended = &mut serving => ended,
        () = idle => Ok(()),
    }
}
