"""JSON Schema of workload and deployment files, for editors that check and complete them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hetsim.hardware.files.json_schema import DIALECT, SchemaGenerator
from hetsim.workloads.files.reader import MODELS, Sort
from hetsim.workloads.registry import KINDS

_MEANINGS: Mapping[str, Mapping[str, str]] = {
    "WorkloadModel": {
        "streams": "Streams of requests by name; a stream's random numbers follow its name.",
        "arrivals": "Those of which streams get a share.",
        "duration_s": "When requests no longer come, in seconds.",
        "requests": "How many come in all; absent: as many as come until the end.",
        "warm_up_s": "What comes before it is played and not counted, in seconds.",
        "seed": "Of all random numbers.",
        "failures": "Devices that fail meanwhile; absent: none does.",
    },
    "StreamModel": {
        "model": "Path of an ONNX file, from the folder of this one, or zoo:NAME.",
        "arrivals": "When its requests come.",
        "share": "In the place of arrivals: the part of the workload's own that it gets.",
        "slos": "What is asked of its latencies, e.g. p99=50ms; each must hold.",
        "priority": "1 goes first; absent: the default level of the deployment.",
        "dims": "Open dimensions of the model: a size, or a column of the trace by buckets.",
    },
    "ByDeviceModel": {},
    "FailingModel": {
        "inject": "At times that are given, e.g. kill gpu at 2s for 500ms.",
        "mtbf_s": "Mean time that a device works until it fails, in seconds: of all, or by name.",
        "mttr_s": "Mean time until it is back, in seconds: of all, or by name.",
        "times": "How both are distributed.",
    },
    "SloModel": {
        "percentile": "Of latencies, above 0 and below 100.",
        "share_on_time": "Of requests, above 0 and below 1.",
        "latency_ms": "From arrival to answer, in milliseconds.",
    },
    "DimModel": {
        "size": "The same for every request.",
        "column": "Of the trace that is replayed.",
        "buckets": "Ascending sizes that the model is prepared for; a request takes the least "
        "that holds it.",
        "above": "Of a request that none holds: an error, or cut to the largest.",
    },
    "ArrivalsModel": {
        "constant": "A request every so often.",
        "poisson": "Independent exponential gaps.",
        "gamma": "Independent gamma distributed gaps.",
        "mmpp": "A Poisson process whose rate changes at random, state after state in a ring.",
        "burst": "Several requests at once.",
        "replay": "The requests of a trace; Azure's and Mooncake's formats are read as they are.",
        "closed": "So many clients, each of whom waits for the answer to the request before.",
    },
    "ConstantModel": {"rate_per_s": "Requests a second."},
    "PoissonModel": {"rate_per_s": "Requests a second, on average."},
    "GammaModel": {
        "rate_per_s": "Requests a second, on average.",
        "cv": "Coefficient of variation of the gaps; 1 is a Poisson process.",
    },
    "MmppModel": {
        "rates_per_s": "Requests a second, by state.",
        "sojourns_s": "Mean time in each state, in seconds.",
    },
    "BurstModel": {
        "rate_per_s": "Requests a second, not bursts.",
        "size": "Requests of one burst.",
        "spacing": "Bursts every so often, or as a Poisson process.",
    },
    "ReplayModel": {
        "path": "CSV or JSON lines, plain or .gz, from the folder of this file.",
        "speed_up": "How much faster requests come than they came.",
        "format": "Absent: what the first line looks like.",
        "column": "Of csv and jsonl: which column or key has the time.",
        "unit": "Of that time; absent: seconds.",
        "where": "Values by column: only the requests that have them, e.g. those of one model.",
        "start_s": "When the file's first request comes; absent: by the earliest of all files.",
    },
    "ClosedModel": {
        "concurrency": "Clients, so the most requests that are under way.",
        "think_time_s": "Mean time from an answer to the client's next request, in seconds.",
        "think": "How that time is distributed.",
    },
    "DeploymentModel": {"models": "What is served, each model once."},
    "ServedModel": {
        "model": "Path of an ONNX file, from the folder of this one, or zoo:NAME.",
        "strategy": "What plans its instances, as --strategy takes it.",
        "batch_sizes": "Ascending sizes that it is planned for; a batch runs as the least that "
        "holds it. Absent: every size.",
        "batch_dim": "The open dimension that is the batch; absent: the first of the first input.",
        "instances": "Its replicas; absent: one on all devices.",
        "routing": "Which instance gets a batch.",
        "queue_policy": "How requests wait.",
        "priority_levels": "Levels of priority, 1 the first; 0: requests have none.",
        "default_priority_level": "Of requests that say none.",
        "dynamic_batching": "How requests that wait become one batch; absent: they do not.",
        "loading": "Whether its weights are in memory all along, or loaded where batches need it.",
        "autoscaling": "When replicas start and stop, as Ray Serve does it; absent: all instances "
        "are there all along.",
    },
    "AutoscalingModel": {
        "min_replicas": "The fewest that there are.",
        "max_replicas": "The most; instances: has as many or more.",
        "initial_replicas": "Of which it begins; absent: min_replicas.",
        "target_ongoing_requests": "Requests, queued or under way, for each replica.",
        "max_ongoing_requests": "That a replica has under way at most; absent: 5.",
        "metrics_interval_s": "How often what was counted is told, in seconds.",
        "look_back_period_s": "How far back it is aggregated, in seconds.",
        "upscale_delay_s": "How long more must have been wanted, in seconds.",
        "downscale_delay_s": "How long fewer must have been wanted, in seconds.",
        "downscale_to_zero_delay_s": "The same of the last one; absent: downscale_delay_s.",
        "upscaling_factor": "On the replicas that are lacking; absent: smoothing_factor.",
        "downscaling_factor": "On those that are too many; absent: smoothing_factor.",
        "smoothing_factor": "An older name: both factors, where they are absent.",
        "upscale_smoothing_factor": "An older name of upscaling_factor.",
        "downscale_smoothing_factor": "An older name of downscaling_factor.",
        "aggregation_function": "Of what was counted.",
        "control_loop_interval_s": "How often it is decided, in seconds.",
        "graceful_shutdown_wait_loop_s": "How often a replica that is to go looks whether it has "
        "ended all that it had, in seconds.",
        "startup_s": "Seconds that a replica takes to start, before its weights are loaded.",
    },
    "InstancesModel": {
        "count": "How many of them are alike.",
        "devices": "Those that each may use; absent: all.",
        "strategy": "What plans them; absent: that of the model.",
        "plan": "A saved plan, in the place of a strategy.",
        "max_in_flight": "Batches that each has under way at most; absent: one where requests "
        "are batched, have priorities or wait by a policy, else as many as its plan takes.",
    },
    "QueuePolicyModel": {
        "max_queue_size": "Requests that may wait; a further one is rejected. 0: any number.",
        "default_timeout_us": "How long a request may wait, in microseconds. 0: for ever.",
        "timeout_action": "Of one that waited longer: rejected, or after all that did not.",
    },
    "DynamicBatchingModel": {
        "max_batch_size": "The most requests of one batch.",
        "preferred_batch_size": "Ascending sizes; a batch of one of them goes at once.",
        "max_queue_delay_us": "How long the oldest waits for others, in microseconds.",
    },
}


def workload_schema(sort: Sort | None = None) -> dict[str, Any]:
    """Return the JSON Schema, draft 2020-12, of a workload or deployment file, or of both as one.

    It accepts what the loader accepts, as far as a schema can say it. What it cannot say, and
    ``hetsim workload validate`` does: what relates two values (shares that add up, an end,
    ascending lists, levels of priority), the forms of an objective in short, and traces.
    """
    sorts: tuple[Sort, ...] = ("workload", "deployment") if sort is None else (sort,)
    definitions: dict[str, Any] = {}
    tops = []
    for one in sorts:
        schema = MODELS[one].model_json_schema(schema_generator=SchemaGenerator)
        definitions.update(schema.pop("$defs"))
        definitions[MODELS[one].__name__] = schema
        tops.append({"$ref": f"#/$defs/{MODELS[one].__name__}"})
    if "ArrivalsModel" in definitions:
        definitions["ArrivalsModel"]["oneOf"] = [
            {"properties": {kind: {"type": "object"}}, "required": [kind]} for kind in KINDS
        ]
        ways = [{"properties": {"arrivals": {"type": "object"}}, "required": ["arrivals"]}]
        ways.append({"properties": {"share": {"type": "number"}}, "required": ["share"]})
        definitions["StreamModel"]["oneOf"] = ways
    for name, definition in definitions.items():
        definition.pop("title", None)
        full = definition if "properties" in definition else definition["anyOf"][-1]
        full.pop("title", None)
        for key, meaning in _MEANINGS[name].items():
            full["properties"][key]["description"] = meaning
    top = tops[0] if sort else {"anyOf": tops}
    title = f"hetsim {sort}" if sort else "hetsim workloads"
    return {"$schema": DIALECT, "title": title, **top, "$defs": dict(sorted(definitions.items()))}
