//! `dues`: the whole of membership billing in one program, everything embedded.

mod act;
mod args;
mod audit;
mod backup;
mod bench;
mod clock;
mod collect;
mod completions;
mod console;
mod demo;
mod explain;
mod export;
mod feeder_run;
mod follow;
mod gateway;
mod history;
mod ingest;
mod log;
mod memory;
mod notify;
mod outgoing;
mod output;
mod parked;
mod patience;
mod projector_run;
mod replay;
mod risk;
mod sandbox;
mod serve;
mod settings;
mod show;
mod signals;
mod stream_run;
mod tail;
mod usage;

use clap::Parser as _;
use std::process::ExitCode;

use args::{Args, Command};
use dues_processors::collections::commands::Command as Action;
use log::Wanted;
use tracing::level_filters::LevelFilter;

/// Rows are allocated by the handlers' threads and freed by the writer's: the system's allocator makes them wait for one another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// More than small machines have cores: the system shares those out between handlers that have much to compute and requests that need a moment.
const WORKERS: usize = 4;

fn main() -> ExitCode {
    let args = Args::parse();
    if matches!(args.command, Command::Serve(_)) {
        log::begin_serving(&args.log);
    } else if !matches!(args.command, Command::Demo(_)) || args.log != Wanted::default() {
        // What a command that runs once has to say, it says itself. A demo's log begins with its console, unless somebody asks for more.
        log::begin(&args.log, LevelFilter::ERROR);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return output::failed(&error.into()),
    };
    let result = runtime.block_on(async {
        match args.command {
            Command::Demo(demo) => demo::run(&args.data, &demo, &args.log).await,
            Command::Ingest(ingest) => ingest::run(&args.data, &ingest).await,
            Command::Show(show) => show::run(&args.data, &show).await,
            Command::History(history) => history::run(&args.data, &history).await,
            Command::Parked(parked) => parked::run(&args.data, &parked).await,
            Command::Explain(explain) => explain::run(&args.data, &explain).await,
            Command::Audit(audit) => audit::run(&args.data, &audit).await,
            Command::Replay(replay) => replay::run(&args.data, &replay).await,
            Command::Export(export) => export::export(&args.data, &export).await,
            Command::Import(import) => export::import(&args.data, &import).await,
            Command::Backup(backup) => backup::run(&args.data, &backup).await,
            Command::Collect(collect) => collect::run(&args.data, &collect).await,
            Command::Pay(pay) => act::pay(&args.data, &pay).await,
            Command::Waive(act) => act::run(&args.data, &act, Action::Waive).await,
            Command::Cancel(cancel) => act::run(&args.data, &cancel.act, Action::Cancel { now: cancel.now }).await,
            Command::Pause(pause) => act::run(&args.data, &pause.act, Action::Pause { months: pause.months }).await,
            Command::Resume(act) => act::run(&args.data, &act, Action::Resume).await,
            Command::Notify(notify) => notify::run(&args.data, &notify).await,
            Command::Risk(risk) => risk::run(&args.data, &risk).await,
            Command::Sandbox(sandbox) => sandbox::run(&args.data, &sandbox).await,
            Command::Tail(tail) => tail::run(&args.data, &tail).await,
            Command::Usage(usage) => usage::run(&args.data, &usage.command).await,
            Command::Serve(serve) => serve::run(&args.data, &serve).await,
            Command::Bench(bench) => bench::run(&args.data, &bench).await,
            Command::Completions(completions) => completions::run(&completions),
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::failed(&error),
    }
}
