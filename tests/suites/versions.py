"""Every version of somebody else's work that the suites run, in one place and pinned."""

FRANZ_GO = "v1.22.2"
SARAMA = "v1.61.1"
XDG_SCRAM = "v1.4.0"  # what sarama's users log in with by SCRAM
PYSPARK = "4.3.0"  # as in requirements/dev.txt
KAFKAJS = "2.2.4"  # as in js/package-lock.json
PLATFORMATIC = "1.35.0"  # the same; the last one for Node 20
KAFKA_PYTHON = "3.0.12"
KAFKA = "4.1.0"
KAFKA_SCALA = "2.13"
SLF4J = "1.7.36"
SPARK_KAFKA = "4.2.0"  # works with PySpark 4.3; the connector of 4.3 is in no repository
HADOOP = "3.5.0"  # as in PySpark
AWS_SDK = "2.35.4"  # as that Hadoop wants it
AWS_ACCELERATOR = "1.3.1"  # the same
# The newest release of Spark that both table formats are published for.
TABLES_SPARK = "4.1"
TABLES_PYSPARK = ("pyspark==4.1.4", "py4j==0.10.9.9")
DELTA = "4.4.0"
ICEBERG = "1.12.0"
PROMETHEUS = "2.42"  # Debian 12's; one on the PATH comes first
KAFKA_CLIENTS = ("2.4.1", "2.8.2", "3.9.1", "4.1.0")  # oldest first

# The ranges of pyproject.toml, as far as they were run: the second one is that of the lock file.
AIOKAFKA = "0.10.0 to 0.14.0"
H11 = "0.14.0 to 0.16.0"
# By Python's minor version, where the lower bound of a range has no wheel.
OLDEST_WHEELS: dict[int, dict[str, str]] = {13: {"aiokafka": "0.12.0"}}

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
BROWSER_PACKAGES = ("playwright==1.65.2", "axe-playwright-python==0.1.8", "greenlet==3.5.6")

# An S3 server (moto), and what it imports.
S3_PACKAGES = (
    "moto==5.2.5",
    *("boto3==1.44.5", "botocore==1.44.5", "s3transfer==0.19.3", "jmespath==1.1.0"),
    *("flask==3.1.3", "flask-cors==6.0.5", "werkzeug==3.1.9", "jinja2==3.1.6", "click==8.5.1"),
    *("blinker==1.9.0", "itsdangerous==2.2.0", "markupsafe==3.0.4", "xmltodict==1.0.4"),
    *("requests==2.34.2", "responses==0.26.3", "urllib3==2.8.0", "certifi==2026.10.18"),
    *("charset-normalizer==3.5.2", "idna==3.20", "cryptography==50.0.2", "cffi==2.1.1"),
    *("pycparser==3.12", "python-dateutil==2.9.0.post0", "six==1.17.0", "pyyaml==6.0.3"),
    "py-partiql-parser==0.6.3",
)
