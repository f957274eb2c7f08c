//! `dues`: membership billing in one program, with an embedded store.

mod args;
mod commands;
mod console;
mod local;
mod log;
mod memory;
mod output;
mod server;

use clap::Parser as _;
use std::process::ExitCode;

use args::{Args, Command};
use log::LogFilter;
use tracing::level_filters::LevelFilter;

/// Handler threads allocate rows and the writer thread frees them; the system allocator serialises that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// More threads than a small machine has cores, so that short requests are not queued behind handlers that
/// compute for milliseconds.
const WORKER_THREADS: usize = 4;

fn main() -> ExitCode {
    let args = Args::parse();
    init_log(&args);
    let runtime =
        match tokio::runtime::Builder::new_multi_thread().worker_threads(WORKER_THREADS).enable_all().build()
        {
            Ok(runtime) => runtime,
            Err(error) => return output::report_failure(&error.into()),
        };
    match runtime.block_on(run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::report_failure(&error),
    }
}

/// The demo starts its log with the console, unless `--log` asks for it earlier.
fn init_log(args: &Args) {
    if matches!(args.command, Command::Serve(_)) {
        log::init_server(&args.log);
    } else if !matches!(args.command, Command::Demo(_)) || args.log != LogFilter::default() {
        log::init(&args.log, LevelFilter::ERROR);
    }
}

async fn run(args: &Args) -> Result<(), output::Error> {
    let data = &args.data;
    match &args.command {
        Command::Demo(demo) => commands::demo::run(data, demo, &args.log).await,
        Command::Ingest(ingest) => commands::ingest::run(data, ingest).await,
        Command::Show(show) => commands::show::run(data, show).await,
        Command::History(history) => commands::history::run(data, history).await,
        Command::Parked(parked) => commands::parked::run(data, parked).await,
        Command::Explain(explain) => commands::explain::run(data, explain).await,
        Command::Audit(audit) => commands::audit::run(data, audit).await,
        Command::Replay(replay) => commands::replay::run(data, replay).await,
        Command::Export(export) => commands::export::run(data, export).await,
        Command::Import(import) => commands::import::run(data, import).await,
        Command::Backup(backup) => commands::backup::run(data, backup).await,
        Command::Collect(collect) => commands::collect::run(data, collect).await,
        Command::Pay(pay) => commands::pay::run(data, pay).await,
        Command::Waive(waive) => commands::waive::run(data, waive).await,
        Command::Cancel(cancel) => commands::cancel::run(data, cancel).await,
        Command::Pause(pause) => commands::pause::run(data, pause).await,
        Command::Resume(resume) => commands::resume::run(data, resume).await,
        Command::Move(moved) => commands::move_record::run(data, moved).await,
        Command::Money(money) => commands::money::run(data, &money.command).await,
        Command::Refund(refund) => commands::refund::run(data, refund).await,
        Command::Sweep(sweep) => commands::sweep::run(data, sweep).await,
        Command::Clock(clock) => commands::clock::run(data, clock).await,
        Command::Attention(attention) => commands::attention::run(data, attention).await,
        Command::Notify(notify) => commands::notify::run(data, notify).await,
        Command::Risk(risk) => commands::risk::run(data, risk).await,
        Command::Sandbox(sandbox) => commands::sandbox::run(data, sandbox).await,
        Command::Tail(tail) => commands::tail::run(data, tail).await,
        Command::Usage(usage) => commands::usage::run(data, &usage.command).await,
        Command::Serve(serve) => commands::serve::run(data, serve).await,
        Command::Bench(bench) => commands::bench::run(data, bench).await,
        Command::Completions(completions) => commands::completions::run(completions),
    }
}
