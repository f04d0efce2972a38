"""Every version of somebody else's work that the suites run, in one place and pinned."""

FRANZ_GO = "v1.22.2"
SARAMA = "v1.61.1"
KAFKAJS = "2.2.4"  # as in js/package-lock.json
PLATFORMATIC = "1.35.0"  # the same; the last one for Node 20
KAFKA_PYTHON = "3.0.12"
KAFKA = "4.1.0"
KAFKA_SCALA = "2.13"
SLF4J = "1.7.36"
PROMETHEUS = "2.42"  # Debian 12's; one on the PATH comes first
KAFKA_CLIENTS = ("2.4.1", "2.8.2", "3.9.1", "4.1.0")  # oldest first

# What kafka-python's tests are run with; cramjam, lz4, python-snappy and zstandard are its codecs.
KAFKA_PYTHON_PACKAGES = (
    f"kafka-python=={KAFKA_PYTHON}",
    "cramjam==2.14.0",
    "iniconfig==2.3.1",
    "lz4==4.4.5",
    "packaging==26.3",
    "pluggy==1.7.0",
    "py==1.11.0",
    "pygments==2.21.0",
    "pytest==9.2.0",
    "pytest-timeout==2.4.0",
    "python-snappy==0.7.3",
    "zstandard==0.25.0",
)

# What the page is looked at with; axe-core, which checks accessibility, is in the second one.
BROWSER_PACKAGES = (
    "playwright==1.65.2",
    "axe-playwright-python==0.1.8",
    "greenlet==3.5.6",
)
