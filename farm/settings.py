"""
Settings of the farm, read from the environment.

`make up` sets every variable; an operator who brings own services sets `FARM_DATABASE_URL`, `FARM_BROKER_URL` and
`FARM_STORAGE_URL`. The same code runs everywhere: a default is another adapter, never an `if DEBUG`.
"""

import logging
import sys
from pathlib import Path

import environ

from farm.billing.pricing import BudgetScope
from farm.core.sigv4 import store_origins
from farm.dispatch.moves import AttemptStatus
from farm.fleet.moves import WorkerStatus
from farm.fleet.pools import FleetMarket, Market
from farm.jobs.moves import JobState, JobStatus, Purpose, StepStatus, TaskStatus
from farm.results.moves import ArchiveRole
from farm.scenes.moves import VersionStatus
from farm.scenes.reports import DependencyState
from farm.studios.roles import Role, Scope

env = environ.Env()

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env.str("FARM_DATA", default=str(BASE_DIR / "var")))

SECRET_KEY = env.str("FARM_SECRET_KEY")
DEBUG = False
FARM_URL = env.str("FARM_URL", default="http://127.0.0.1:8780")
ALLOWED_HOSTS = env.list("FARM_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])

# Processes log in as `farm`; only `migrate` and the tests log in as the owner of the tables.
MIGRATING = len(sys.argv) > 1 and sys.argv[1] in {"migrate", "makemigrations", "sqlmigrate", "check", "spectacular"}
_database_url = "FARM_DATABASE_OWNER_URL" if MIGRATING and "FARM_DATABASE_OWNER_URL" in env else "FARM_DATABASE_URL"
DATABASES = {
    "default": env.db_url(_database_url)
    | {
        "ENGINE": "django.db.backends.postgresql",
        "ATOMIC_REQUESTS": True,
        "CONN_MAX_AGE": 600,  # one is made anew at the cost of several requests, half of it the database's
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"connect_timeout": 5, "options": "-c statement_timeout=30s -c lock_timeout=10s"},
    }
}
FARM_DATABASE_OWNER_URL = env.str("FARM_DATABASE_OWNER_URL", default="")
FARM_BROKER_URL = env.str("FARM_BROKER_URL")
FARM_WORKER_BROKER_URL = env.str("FARM_WORKER_BROKER_URL", default=FARM_BROKER_URL)
FARM_STORAGE_URL = env.str("FARM_STORAGE_URL", default=f"file://{DATA_DIR / 'store'}")
FARM_AGENT_PYTHON = env.str("FARM_AGENT_PYTHON", default=str(BASE_DIR / ".venvs/agent/bin/python"))
FARM_RENDERER_PYTHON = env.str("FARM_RENDERER_PYTHON", default=str(BASE_DIR / ".venvs/renderer/bin/python"))
FARM_BLENDER = env.str("FARM_BLENDER", default="")
FARM_REGIONS = env.list("FARM_REGIONS", default=["local"])  # each with a store of its own
FARM_BOOT_SCRIPT = env.str("FARM_BOOT_SCRIPT", default=str(BASE_DIR / "infra/aws/boot.sh"))  # of rented machines
FARM_TRUST_SCENES = env.bool("FARM_TRUST_SCENES", default=False)
FARM_SELF_REGISTRATION = env.bool("FARM_SELF_REGISTRATION", default=False)  # otherwise people come by invitation
PORTAL_DIR = BASE_DIR / "frontend/portal/dist"  # made by `make portal`

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.usersessions",
    "allauth.headless",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "farm.core",
    "farm.studios",
    "farm.billing",
    "farm.scenes",
    "farm.fleet",
    "farm.jobs",
    "farm.dispatch",
    "farm.results",
    "farm.notifications",
    "farm.rehearsals",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "farm.core.problems.ProblemMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "allauth.usersessions.middleware.UserSessionsMiddleware",
    "farm.studios.tenancy.TenantMiddleware",
]
ROOT_URLCONF = "farm.urls"
APPEND_SLASH = False
WSGI_APPLICATION = "farm.wsgi.application"
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}]
AUTH_USER_MODEL = "studios.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

# Signing in (django-allauth, headless: the portal has the pages, /_allauth/browser/v1 the answers).
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
ACCOUNT_ADAPTER = "farm.studios.accounts.AccountAdapter"
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "mandatory"
ACCOUNT_PREVENT_ENUMERATION = True
ACCOUNT_EMAIL_SUBJECT_PREFIX = "Farmhand: "
HEADLESS_ONLY = True
HEADLESS_CLIENTS = ("browser",)
HEADLESS_FRONTEND_URLS = {
    "account_confirm_email": f"{FARM_URL}/verify-email/{{key}}",
    "account_reset_password": f"{FARM_URL}/forgotten",
    "account_reset_password_from_key": f"{FARM_URL}/set-password/{{key}}",
    "account_signup": f"{FARM_URL}/sign-up",
}
USERSESSIONS_TRACK_ACTIVITY = True
# Limits on guessing are counted by all processes together, and outlive a broker that forgets.
CACHES = {
    "default": {
        "BACKEND": "farm.core.counters.Counters",
        "LOCATION": "core_cache",
        "OPTIONS": {"MAX_ENTRIES": 2000},  # beyond it what is over is dropped; what still counts stays
    }
}
# Proxies of the operator's own between people and the farm. What they forward is believed: from where a request comes,
# and that it came by TLS. With none, nothing forwarded is.
FARM_TRUSTED_PROXIES = env.int("FARM_TRUSTED_PROXIES", default=0)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if FARM_TRUSTED_PROXIES > 0 else None
IS_HTTPS = FARM_URL.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_HSTS_INCLUDE_SUBDOMAINS = IS_HTTPS
SECURE_HSTS_SECONDS = 365 * 86400 if IS_HTTPS else 0
CSRF_TRUSTED_ORIGINS = [FARM_URL]
SESSION_COOKIE_AGE = 14 * 86400
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
]
# On one machine, mail lies as files below the data folder until FARM_MAIL_URL names a server.
vars().update(env.email_url("FARM_MAIL_URL", default=f"filemail:///{DATA_DIR / 'mail'}"))
DEFAULT_FROM_EMAIL = env.str("FARM_MAIL_FROM", default="Farmhand <farmhand@localhost>")
DATA_UPLOAD_MAX_MEMORY_SIZE = 64 * 1024 * 1024  # the largest manifest of a scene

STATIC_URL = "/static/"
STATICFILES_DIRS = [("portal", PORTAL_DIR)] if PORTAL_DIR.exists() else []
WHITENOISE_USE_FINDERS = True
WHITENOISE_IMMUTABLE_FILE_TEST = r"^/static/portal/assets/"  # their names have digests

# The portal runs its own scripts only. Styles inline: its component library sets custom properties on elements.
# Where browsers fetch files, if that is not here.
_STORE_ORIGINS = env.list("FARM_STORE_ORIGINS", default=store_origins(FARM_STORAGE_URL))
EVENTS_ORIGINS = env.list("FARM_EVENTS_ORIGINS", default=[])  # of the events part, where no load balancer routes to it
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "img-src": ["'self'", "blob:", "data:", *_STORE_ORIGINS],
        "media-src": ["'self'", "blob:", *_STORE_ORIGINS],
        "connect-src": ["'self'", *_STORE_ORIGINS, *EVENTS_ORIGINS],
        "style-src": ["'self'", "'unsafe-inline'"],
        "font-src": ["'self'", "data:"],
        "worker-src": ["'self'", "blob:"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["farm.studios.authentication.CallerAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["farm.studios.authentication.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["farm.core.bodies.JsonParser"],
    "URL_FORMAT_OVERRIDE": None,
    "DEFAULT_SCHEMA_CLASS": "farm.core.schema.Schema",
    "EXCEPTION_HANDLER": "farm.core.problems.answer",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Farmhand",
    "VERSION": "1.0.0",
    "DESCRIPTION": "Upload scenes, render them on the farm, see what it costs.",
    "OAS_VERSION": "3.1.1",
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
    "ENUM_NAME_OVERRIDES": {
        f"{kind.__name__}Enum": [str(member) for member in kind]
        for kind in (
            JobState,
            JobStatus,
            StepStatus,
            TaskStatus,
            AttemptStatus,
            VersionStatus,
            DependencyState,
            BudgetScope,
            Scope,
            WorkerStatus,
            Market,
            FleetMarket,
            Purpose,
            ArchiveRole,
            Role,
        )
    },
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "farm.core.schema.say_that_all_fields_come",
    ],
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {"django.request": {"level": "ERROR"}, "botocore": {"level": "WARNING"}},
}
logging.captureWarnings(True)
