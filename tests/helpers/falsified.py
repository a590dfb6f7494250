"""Certificates that claim what is not so: one change each, and what the checker must find.

Each takes a certificate of its own to change and random numbers, and returns what the reason for
its rejection must say; None where this certificate has nothing that it could falsify.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from certificate_parts import Json
from false_bounds import (
    a_device_has_less_capacity,
    a_device_is_in_a_way_twice,
    a_link_is_held_for_less_than_least_says,
    a_link_of_capacity_has_none,
    a_pooled_request_is_worth_less_than_one,
    a_pooled_server_is_quicker,
    a_request_is_worth_more,
    a_task_is_quicker_than_least_says,
    a_template_is_of_no_way,
    a_window_is_shorter,
    bounds_are_hidden,
    least_says_more_than_a_task_takes,
    least_says_what_is_slower_than_a_template,
    the_least_of_a_bound_is_raised,
    what_a_way_takes_has_less_capacity,
)
from false_questions import (
    a_device_runs_more_at_once,
    a_kind_costs_other_than_its_price,
    a_kind_is_dropped,
    a_kind_is_not_to_be_had,
    a_price_of_what_is_recommended_is_another,
    an_objective_is_laxer,
    arrivals_are_thinned,
    arrivals_come_slower,
    fewer_devices_may_be_had,
    more_may_be_lost,
    no_policy_is_stated,
    verdicts_may_be_wrong_less_often,
)
from false_runs import (
    a_batch_runs_as_another_class,
    a_batch_runs_on_other_devices,
    a_loss_is_left_out,
    a_loss_is_of_the_runner_up,
    a_miss_is_called_met,
    a_policy_has_no_deployment,
    a_policy_is_excluded_by_what_is_needed,
    a_policy_was_not_tried,
    a_run_is_said_to_be_of_another_policy,
    a_small_batch_is_run_in_place_of_a_large_one,
    a_vector_that_was_tried_is_hidden,
    a_verdict_of_the_long_run_is_certain,
    an_instance_is_left_out,
    an_instance_is_on_another_device,
    an_instance_takes_one_for_two,
    an_objective_is_not_judged,
    an_undecided_vector_is_hidden,
    costs_do_not_add_up,
    late_requests_are_miscounted,
    not_all_of_a_trace_is_played,
    the_answer_is_of_another_vector_s_run,
    the_answer_is_one_that_misses,
    the_runner_up_comes_first,
    the_runner_up_is_the_answer,
    there_is_no_answer,
    there_is_no_runner_up,
    undecided_is_called_a_miss,
    undecided_is_called_tried,
    what_does_not_serve_is_there,
    what_is_excluded_serves_on_fewer_devices,
    what_is_lost_serves,
    what_meets_is_called_a_miss,
    what_meets_is_excluded,
)
from hetsim.errors import CertificateRefuted, InvalidInput
from hetsim.provisioning.platforms.verification import verify

Falsify = Callable[[Json, np.random.Generator], str | None]

FALSIFIED: tuple[Falsify, ...] = (
    a_vector_that_was_tried_is_hidden,
    an_undecided_vector_is_hidden,
    bounds_are_hidden,
    the_least_of_a_bound_is_raised,
    a_pooled_server_is_quicker,
    a_device_has_less_capacity,
    what_a_way_takes_has_less_capacity,
    a_link_of_capacity_has_none,
    a_request_is_worth_more,
    a_pooled_request_is_worth_less_than_one,
    a_window_is_shorter,
    late_requests_are_miscounted,
    a_miss_is_called_met,
    what_meets_is_called_a_miss,
    undecided_is_called_a_miss,
    undecided_is_called_tried,
    the_answer_is_one_that_misses,
    the_answer_is_of_another_vector_s_run,
    costs_do_not_add_up,
    a_kind_costs_other_than_its_price,
    a_price_of_what_is_recommended_is_another,
    the_runner_up_comes_first,
    the_runner_up_is_the_answer,
    there_is_no_runner_up,
    there_is_no_answer,
    a_policy_was_not_tried,
    a_run_is_said_to_be_of_another_policy,
    an_instance_is_left_out,
    an_instance_is_on_another_device,
    an_instance_takes_one_for_two,
    a_device_is_in_a_way_twice,
    a_batch_runs_on_other_devices,
    a_batch_runs_as_another_class,
    a_small_batch_is_run_in_place_of_a_large_one,
    a_task_is_quicker_than_least_says,
    least_says_more_than_a_task_takes,
    a_link_is_held_for_less_than_least_says,
    least_says_what_is_slower_than_a_template,
    a_template_is_of_no_way,
    arrivals_are_thinned,
    arrivals_come_slower,
    not_all_of_a_trace_is_played,
    an_objective_is_laxer,
    an_objective_is_not_judged,
    a_kind_is_not_to_be_had,
    a_kind_is_dropped,
    fewer_devices_may_be_had,
    a_device_runs_more_at_once,
    verdicts_may_be_wrong_less_often,
    a_verdict_of_the_long_run_is_certain,
    a_policy_has_no_deployment,
    what_meets_is_excluded,
    what_is_excluded_serves_on_fewer_devices,
    a_policy_is_excluded_by_what_is_needed,
    a_loss_is_left_out,
    a_loss_is_of_the_runner_up,
    what_is_lost_serves,
    what_does_not_serve_is_there,
    more_may_be_lost,
    no_policy_is_stated,
)


def all_rejected(text: str, path: Path, seed: int) -> int:
    """Check that a certificate is rejected however it is falsified; return in how many ways."""
    rejected = 0
    for number, falsify in enumerate(FALSIFIED):
        given = json.loads(text)
        reason = falsify(given, np.random.default_rng([seed, number]))
        if reason is None:
            continue
        path.write_text(json.dumps(given))
        with pytest.raises((CertificateRefuted, InvalidInput)) as caught:
            verify(path)
        assert re.search(reason, str(caught.value)), (falsify.__name__, str(caught.value))
        rejected += 1
    return rejected
