"""
Celery: carries assignments to workers' queues, and runs short reconcilers on the control plane.

No message holds work or a credential, none runs longer than a minute, and losing all of them costs only time: the
beat asks again. Sources of the settings: kombu's Redis transport redelivers only after `visibility_timeout` plus a
sweep of `unacked_restore_interval` × `unacked_restore_throttle`; without remote control a worker that loses the broker
between two messages may never notice.
"""

import os

from celery import Celery
from celery.signals import task_prerun

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "farm.settings")

from django.conf import settings
from django.db import close_old_connections

app = Celery("farm")
app.set_default()  # for all threads: rooms send by `current_app`, and know no settings
app.conf.update(
    broker_url=settings.FARM_BROKER_URL,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={
        "visibility_timeout": 900,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 5,
        "socket_timeout": 10,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        "health_check_interval": 15,
    },
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_soft_time_limit=60,
    task_time_limit=75,
    task_publish_retry_policy={"max_retries": 1, "interval_start": 0.1},
    worker_prefetch_multiplier=1,
    worker_max_tasks_per_child=1000,
    worker_max_memory_per_child=400_000,
    worker_soft_shutdown_timeout=20,
    worker_enable_soft_shutdown_on_idle=True,
    worker_enable_remote_control=True,
    worker_hijack_root_logger=False,
    CELERY_DB_REUSE_MAX=1_000_000,  # `_look_at_connections` decides; Celery would make one anew for every message
    accept_content=["json"],
    task_serializer="json",
    timezone="UTC",
    enable_utc=True,
    beat_schedule={
        "provide-capacity": {"task": "farm.dispatch.reconcilers.provide_capacity", "schedule": 5.0},
        "settle-launches": {"task": "farm.fleet.reconcilers.settle_launches", "schedule": 5.0},
        "refresh-pools": {"task": "farm.fleet.reconcilers.refresh_pools", "schedule": 60.0},
        "audit-machines": {"task": "farm.dispatch.reconcilers.audit_machines", "schedule": 30.0},
        "inspect-versions": {"task": "farm.jobs.reconcilers.inspect_versions", "schedule": 10.0},
        "close-jobs": {"task": "farm.jobs.reconcilers.close_jobs", "schedule": 30.0},
        "follow-scouts": {"task": "farm.dispatch.reconcilers.follow_scouts", "schedule": 5.0},
        "take-reports": {"task": "farm.dispatch.reconcilers.take_reports", "schedule": 10.0},
        "grow-movies": {"task": "farm.results.reconcilers.grow_movies", "schedule": 10.0},
        "collect-garbage": {"task": "farm.scenes.reconcilers.collect_garbage", "schedule": 3600.0},
        "forget-answers": {"task": "farm.core.reconcilers.forget_answers", "schedule": 3600.0},
    },
    beat_schedule_filename=str(settings.DATA_DIR / "run" / "beat"),
)
app.autodiscover_tasks(
    ["farm.core", "farm.scenes", "farm.fleet", "farm.jobs", "farm.dispatch", "farm.results"], related_name="reconcilers"
)


@task_prerun.connect
def _look_at_connections(**_: object) -> None:
    """Drop a connection to the database that is old or broken, as Django does before a request."""
    close_old_connections()
