/* The function of `twill.runtime.matcher` that recognizes calls, in C: the same facts in the same key, the same plan.
   quick_key.c comes before it. Whatever is not as it expects is NotImplemented: the function in Python says then what it is. */

enum Kind { VALUE, FREE, FLOAT, TENSOR, OPEN_TENSOR, OPTIONAL_TENSOR, DESCRIPTOR, OPEN_DESCRIPTOR };

typedef struct {
    PyObject *name;     /* interned; borrowed from `held`, as all others */
    PyObject *fallback; /* the default, or NULL */
    int kind;
    int told; /* whether plans are told how far its memory goes */
} Parameter;

typedef struct {
    PyObject_HEAD
    PyObject *held; /* a tuple with everything that the pointers below point to */
    Parameter *parameters;
    Py_ssize_t count, facts, told;
    PyObject *how; /* names of options; keyed: whether they are in the key */
    int keyed;
    PyObject *plans, *call, *stale, *stream_of, *device_of, *globals, *changed;
} Match;

#define MOST 128 /* parameters and options */

static PyObject *DATA_PTR, *DTYPE, *GET_DEVICE, *UNTYPED_STORAGE, *NBYTES, *START, *SIZES[3], *PADDING, *ROUND, *BASE;

static long long address_of(PyObject *value, PyObject *method)
{
    PyObject *found = PyObject_CallMethodNoArgs(value, method);
    if (!found)
        return -1;
    long long address = PyLong_AsLongLong(found);
    Py_DECREF(found);
    return address; /* -1 with an error set if it is none */
}

/* The place of a keyword among parameters, count + its place among options, or -1. */
static Py_ssize_t place_of(Match *self, PyObject *name, Py_ssize_t hint)
{
    for (Py_ssize_t step = 0; step < self->count; step++) {
        Py_ssize_t place = hint + step < self->count ? hint + step : hint + step - self->count;
        if (self->parameters[place].name == name)
            return place;
    }
    for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(self->how); place++)
        if (PyTuple_GET_ITEM(self->how, place) == name)
            return self->count + place;
    for (Py_ssize_t place = 0; place < self->count; place++)
        if (PyUnicode_Compare(self->parameters[place].name, name) == 0)
            return place;
    for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(self->how); place++)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(self->how, place), name) == 0)
            return self->count + place;
    return -1;
}

/* A tuple of the grid's sizes. */
static PyObject *sizes_of(Match *self, PyObject *grid, PyObject **values)
{
    if (PyTuple_CheckExact(grid))
        return Py_NewRef(grid);
    if (!PyCallable_Check(grid))
        return PySequence_Tuple(grid);
    PyObject *given = PyDict_New();
    if (!given)
        return NULL;
    for (Py_ssize_t place = 0; place < self->count; place++)
        if (PyDict_SetItem(given, self->parameters[place].name, values[place]) < 0) {
            Py_DECREF(given);
            return NULL;
        }
    PyObject *found = PyObject_CallOneArg(grid, given);
    Py_DECREF(given);
    if (!found)
        return NULL;
    PyObject *sizes = PySequence_Tuple(found);
    Py_DECREF(found);
    return sizes;
}

/* What is looked at of a tensor: new references in facts[0..2]; at: its address. -1 on an error. */
static int tensor_facts(PyObject *value, PyObject **facts, long long *at)
{
    *at = address_of(value, DATA_PTR);
    if (*at == -1 && PyErr_Occurred())
        return -1;
    PyObject *dtype = PyObject_GetAttr(value, DTYPE);
    if (!dtype)
        return -1;
    PyObject *device = PyObject_CallMethodNoArgs(value, GET_DEVICE);
    if (!device) {
        Py_DECREF(dtype);
        return -1;
    }
    facts[0] = Py_NewRef(*at & 15 ? Py_False : Py_True);
    facts[1] = dtype;
    facts[2] = device;
    return 0;
}

/* Bytes from `at` to the end of a tensor's storage; -1 with an error set. */
static long long beyond(PyObject *value, long long at)
{
    PyObject *storage = PyObject_CallMethodNoArgs(value, UNTYPED_STORAGE);
    if (!storage)
        return -1;
    long long begin = address_of(storage, DATA_PTR), size = 0;
    if (!PyErr_Occurred())
        size = address_of(storage, NBYTES);
    Py_DECREF(storage);
    return PyErr_Occurred() ? -1 : begin + size - at;
}

/* What is looked at of a descriptor, new references in facts[0..7], and [8] if it is open. -1 on an error. */
static int descriptor_facts(PyObject *value, PyObject **facts, int open)
{
    Py_ssize_t made = 0;
    long long at, left;
    PyObject *base = NULL, *found;
    for (; made < 3; made++) {
        if (!(found = PyObject_GetAttr(value, SIZES[made])))
            goto failed;
        facts[made] = PySequence_Tuple(found);
        Py_DECREF(found);
        if (!facts[made])
            goto failed;
    }
    if (!(facts[made] = PyObject_GetAttr(value, PADDING)))
        goto failed;
    made++;
    facts[made] = PyObject_GetAttr(value, ROUND);
    if (!facts[made]) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            goto failed;
        PyErr_Clear();
        facts[made] = Py_NewRef(Py_None);
    }
    made++;
    if (!(base = PyObject_GetAttr(value, BASE)) || tensor_facts(base, facts + made, &at) < 0)
        goto failed;
    made += 3;
    if (open) {
        left = beyond(base, at);
        if (PyErr_Occurred() || !(facts[made] = PyLong_FromLongLong(left)))
            goto failed;
    }
    Py_DECREF(base);
    return 0;
failed:
    Py_XDECREF(base);
    while (made--)
        Py_DECREF(facts[made]);
    return -1;
}

/* Fill the key (behind the sizes) and the values; *device: of the first tensor, borrowed from the key. 0, -1 on an
   error, 1 if the call is not to be looked at here. */
static int look(Match *self, PyObject **given, PyObject *key, PyObject *values, PyObject **device)
{
    Py_ssize_t fact = 1, behind = self->count;
    for (Py_ssize_t place = 0; place < self->count; place++) {
        Parameter *one = &self->parameters[place];
        PyObject *value = given[place];
        PyTuple_SET_ITEM(values, place, Py_NewRef(value));
        if (one->kind == VALUE || one->kind == FLOAT || one->kind == FREE)
            PyTuple_SET_ITEM(key, fact++, Py_NewRef((PyObject *)Py_TYPE(value)));
        if (one->kind == VALUE)
            PyTuple_SET_ITEM(key, fact++, Py_NewRef(value));
        else if (one->kind == FREE) {
            int wide = 0;
            if (!PyLong_Check(value))
                return 1;
            long long number = PyLong_AsLongLongAndOverflow(value, &wide);
            if (wide)
                return 1;
            PyTuple_SET_ITEM(key, fact++, Py_NewRef(number == 1 ? Py_True : Py_False));
            PyTuple_SET_ITEM(key, fact++, Py_NewRef(number & 15 ? Py_False : Py_True));
        } else if (one->kind == OPTIONAL_TENSOR) {
            PyObject *three[3];
            long long at;
            if (value == Py_None) {
                PyTuple_SET_ITEM(key, fact++, Py_NewRef(Py_None));
                if (!*device)
                    return 1;
                continue;
            }
            if (tensor_facts(value, three, &at) < 0)
                return -1;
            PyObject *all = PyTuple_Pack(3, three[0], three[1], three[2]);
            if (all && !*device)
                *device = three[2]; /* the tuple has it */
            for (int i = 0; i < 3; i++)
                Py_DECREF(three[i]);
            if (!all)
                return -1;
            PyTuple_SET_ITEM(key, fact++, all);
        } else if (one->kind == DESCRIPTOR || one->kind == OPEN_DESCRIPTOR) {
            PyObject *all[9];
            int open = one->kind == OPEN_DESCRIPTOR;
            if (descriptor_facts(value, all, open) < 0)
                return -1;
            for (int i = 0; i < 8 + open; i++)
                PyTuple_SET_ITEM(key, fact++, all[i]);
            if (!*device)
                *device = all[7];
        } else if (one->kind == TENSOR || one->kind == OPEN_TENSOR) {
            PyObject *three[3];
            long long at;
            if (tensor_facts(value, three, &at) < 0)
                return -1;
            for (int i = 0; i < 3; i++)
                PyTuple_SET_ITEM(key, fact++, three[i]);
            if (!*device)
                *device = three[2];
            if (!one->told)
                continue;
            long long left = beyond(value, at);
            if (PyErr_Occurred())
                return -1;
            PyObject *begin = PyLong_FromLongLong(at), *length = PyLong_FromLongLong(left);
            if (!begin || !length) {
                Py_XDECREF(begin);
                Py_XDECREF(length);
                return -1;
            }
            if (one->kind == OPEN_TENSOR)
                PyTuple_SET_ITEM(key, fact++, Py_NewRef(length));
            PyTuple_SET_ITEM(values, behind++, begin);
            PyTuple_SET_ITEM(values, behind++, length);
        }
    }
    if (self->keyed)
        for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(self->how); place++)
            PyTuple_SET_ITEM(key, fact++, Py_NewRef(given[self->count + place]));
    return 0;
}

static PyObject *matched(Match *self, PyObject *grid, PyObject **given)
{
    PyObject *sizes = sizes_of(self, grid, given), *device = NULL, *result = NULL, *stream = NULL;
    if (!sizes)
        return NULL;
    PyObject *key = PyTuple_New(1 + self->facts);
    PyObject *values = PyTuple_New(self->count + 2 * self->told);
    if (!key || !values) {
        Py_DECREF(sizes);
        goto done;
    }
    PyTuple_SET_ITEM(key, 0, sizes);
    int other = look(self, given, key, values, &device);
    if (other > 0)
        result = Py_NewRef(Py_NotImplemented);
    if (other)
        goto done;
    PyObject *plan = PyDict_GetItemWithError(self->plans, key);
    if (!plan) {
        if (!PyErr_Occurred())
            result = PyObject_CallOneArg(self->call, key);
        goto done;
    }
    Py_INCREF(plan);
    PyObject *index = device ? Py_NewRef(device) : PyObject_CallNoArgs(self->device_of);
    if (index) {
        stream = PyObject_CallOneArg(self->stream_of, index);
        Py_DECREF(index);
    }
    if (stream) {
        result = PyObject_CallMethodObjArgs(plan, START, values, stream, NULL);
        Py_DECREF(stream);
    }
    Py_DECREF(plan);
    if (result == self->stale) {
        Py_DECREF(result);
        result = PyObject_CallOneArg(self->call, key);
    }
done:
    Py_XDECREF(key);
    Py_XDECREF(values);
    return result;
}

/* match(grid, args, kwargs): as the function in Python with (grid, *args, **kwargs), or NotImplemented. */
static PyObject *match(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    Match *self = (Match *)object;
    PyObject *given[MOST] = {NULL};
    Py_ssize_t all = self->count + PyTuple_GET_SIZE(self->how);
    if (count != 3 || !PyTuple_CheckExact(arguments[1]) || !PyDict_CheckExact(arguments[2]))
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *positional = arguments[1], *named = arguments[2];
    if (PyTuple_GET_SIZE(positional) > self->count)
        Py_RETURN_NOTIMPLEMENTED;
    if (PyDict_GET_SIZE(self->globals)) {
        PyObject *differs = PyObject_CallOneArg(self->changed, self->globals);
        if (!differs)
            return NULL;
        int truth = PyObject_IsTrue(differs);
        Py_DECREF(differs);
        if (truth)
            return truth < 0 ? NULL : Py_NewRef(Py_False);
    }
    for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(positional); place++)
        given[place] = PyTuple_GET_ITEM(positional, place);
    PyObject *name, *value;
    Py_ssize_t step = 0, hint = PyTuple_GET_SIZE(positional);
    while (PyDict_Next(named, &step, &name, &value)) {
        if (!PyUnicode_Check(name))
            Py_RETURN_NOTIMPLEMENTED;
        Py_ssize_t place = place_of(self, name, hint < self->count ? hint : 0);
        if (place < 0 || given[place]) {
            PyErr_Clear();
            Py_RETURN_NOTIMPLEMENTED;
        }
        given[place] = value;
        hint = place + 1;
    }
    for (Py_ssize_t place = 0; place < all; place++) {
        if (!given[place])
            given[place] = place < self->count ? self->parameters[place].fallback : Py_None;
        if (!given[place])
            Py_RETURN_NOTIMPLEMENTED;
    }
    for (Py_ssize_t place = 0; place < all; place++)
        Py_INCREF(given[place]); /* what a grid function does to the dictionary is nothing to them */
    PyObject *result = matched(self, arguments[0], given);
    for (Py_ssize_t place = 0; place < all; place++)
        Py_DECREF(given[place]);
    return result;
}

static int visit_all(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((Match *)object)->held);
    return 0;
}

static void dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    Py_CLEAR(((Match *)object)->held);
    PyMem_Free(((Match *)object)->parameters);
    PyObject_GC_Del(object);
}

static PyMethodDef METHODS[] = {
    {"match", (PyCFunction)(void (*)(void))match, METH_FASTCALL, NULL}, {NULL, NULL, 0, NULL}};

static PyTypeObject TYPE = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "quick_match.Match",
    .tp_basicsize = sizeof(Match),
    .tp_dealloc = dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_traverse = visit_all,
    .tp_methods = METHODS,
};

/* make(names, kinds, fallbacks, told, how, keyed, plans, call, stale, stream_of, device_of, globals, changed)
   fallbacks: of each parameter (value,) or (). */
static PyObject *make(PyObject *module, PyObject *all)
{
    PyObject *names, *kinds, *fallbacks, *told;
    Match *self = PyObject_GC_New(Match, &TYPE);
    if (!self)
        return NULL;
    self->held = NULL;
    self->parameters = NULL;
    PyObject_GC_Track((PyObject *)self);
    if (!PyArg_ParseTuple(all, "O!O!O!O!O!pO!OOOOO!O", &PyTuple_Type, &names, &PyTuple_Type, &kinds, &PyTuple_Type,
                          &fallbacks, &PyTuple_Type, &told, &PyTuple_Type, &self->how, &self->keyed, &PyDict_Type,
                          &self->plans, &self->call, &self->stale, &self->stream_of, &self->device_of, &PyDict_Type,
                          &self->globals, &self->changed))
        goto failed;
    self->held = Py_NewRef(all);
    self->count = PyTuple_GET_SIZE(names);
    self->facts = self->told = 0;
    if (self->count + PyTuple_GET_SIZE(self->how) > MOST || PyTuple_GET_SIZE(kinds) != self->count ||
        PyTuple_GET_SIZE(fallbacks) != self->count || PyTuple_GET_SIZE(told) != self->count) {
        PyErr_SetString(PyExc_ValueError, "lengths");
        goto failed;
    }
    self->parameters = PyMem_Calloc(self->count + 1, sizeof(Parameter));
    if (!self->parameters) {
        PyErr_NoMemory();
        goto failed;
    }
    static const int facts[] = {2, 3, 1, 3, 4, 1, 8, 9};
    for (Py_ssize_t place = 0; place < self->count; place++) {
        Parameter *one = &self->parameters[place];
        PyObject *fallback = PyTuple_GET_ITEM(fallbacks, place);
        one->name = PyTuple_GET_ITEM(names, place);
        one->kind = (int)PyLong_AsLong(PyTuple_GET_ITEM(kinds, place));
        one->told = PyTuple_GET_ITEM(told, place) == Py_True;
        if (!PyUnicode_Check(one->name) || one->kind < 0 || one->kind > OPEN_DESCRIPTOR || !PyTuple_Check(fallback) ||
            (one->kind == OPEN_TENSOR && !one->told)) {
            PyErr_SetString(PyExc_ValueError, "a parameter");
            goto failed;
        }
        one->fallback = PyTuple_GET_SIZE(fallback) ? PyTuple_GET_ITEM(fallback, 0) : NULL;
        self->facts += facts[one->kind];
        self->told += one->told && (one->kind == TENSOR || one->kind == OPEN_TENSOR);
    }
    self->facts += self->keyed ? PyTuple_GET_SIZE(self->how) : 0;
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

static PyMethodDef FUNCTIONS[] = {{"make", make, METH_VARARGS, NULL},
                                  {"key_of", (PyCFunction)(void (*)(void))key_of, METH_FASTCALL, NULL},
                                  {NULL, NULL, 0, NULL}};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "quick_match", NULL, -1, FUNCTIONS};

PyMODINIT_FUNC PyInit_quick_match(void)
{
    DATA_PTR = PyUnicode_InternFromString("data_ptr");
    DTYPE = PyUnicode_InternFromString("dtype");
    GET_DEVICE = PyUnicode_InternFromString("get_device");
    UNTYPED_STORAGE = PyUnicode_InternFromString("untyped_storage");
    NBYTES = PyUnicode_InternFromString("nbytes");
    ELEMENT_TYPE = PyUnicode_InternFromString("dtype");
    START = PyUnicode_InternFromString("start");
    SIZES[0] = PyUnicode_InternFromString("shape");
    SIZES[1] = PyUnicode_InternFromString("strides");
    SIZES[2] = PyUnicode_InternFromString("block_shape");
    PADDING = PyUnicode_InternFromString("padding");
    ROUND = PyUnicode_InternFromString("round_f32_to_tf32");
    BASE = PyUnicode_InternFromString("base");
    for (int i = 0; i < 3; i++)
        if (!SIZES[i])
            return NULL;
    if (!PADDING || !ROUND || !BASE || !DATA_PTR || !DTYPE || !GET_DEVICE || !UNTYPED_STORAGE || !NBYTES || !START || !ELEMENT_TYPE || PyType_Ready(&TYPE) < 0)
        return NULL;
    return PyModule_Create(&MODULE);
}
